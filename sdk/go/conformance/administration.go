package main

import (
	"context"
	"fmt"
	"time"

	"ariane.mq/go/ariane"
)

func (w *worker) administer(ctx context.Context, asked command) (any, error) {
	if _, err := w.connect(""); err != nil {
		return nil, err
	}
	admin, err := ariane.NewAdmin(w.clients[""], asked.Address)
	if err != nil {
		return nil, err
	}
	queues := ariane.TopicSettings{ReadQueues: asked.Queues, WriteQueues: asked.Queues}
	said := map[string]any{}
	switch asked.Act {
	case "create_topic":
		_, err = admin.CreateTopic(ctx, asked.Topic, queues)
	case "update_topic":
		_, err = admin.UpdateTopic(ctx, asked.Topic, queues)
	case "delete_topic":
		err = admin.DeleteTopic(ctx, asked.Topic)
	case "topics":
		var topics []ariane.TopicInfo
		topics, err = admin.Topics(ctx, "")
		said["topics"] = namesOf(topics, func(each ariane.TopicInfo) string { return each.Name })
	case "create_group":
		_, err = admin.CreateGroup(ctx, asked.Group, ariane.GroupSettings{})
	case "delete_group":
		err = admin.DeleteGroup(ctx, asked.Group)
	case "groups":
		var groups []ariane.GroupInfo
		groups, err = admin.Groups(ctx, "")
		said["groups"] = namesOf(groups, func(each ariane.GroupInfo) string { return each.Name })
	case "lag":
		var lags []ariane.Lag
		lags, err = admin.Lags(ctx, asked.Group, asked.Topic)
		sum := int64(0)
		for _, each := range lags {
			sum += each.Messages
		}
		said["lag"] = sum
	case "reset":
		_, err = admin.ResetOffsets(ctx, asked.Group, asked.Topic, time.UnixMilli(asked.ToMs))
	default:
		err = fmt.Errorf("no such act: %q", asked.Act)
	}
	return said, err
}

func namesOf[T any](all []T, name func(T) string) []string {
	names := make([]string, len(all))
	for place, each := range all {
		names[place] = name(each)
	}
	return names
}
