package ariane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "ariane.mq/go/arianepb/admin/v1"
	brokerv1 "ariane.mq/go/arianepb/broker/v1"
	commonv1 "ariane.mq/go/arianepb/common/v1"
	namesrvv1 "ariane.mq/go/arianepb/namesrv/v1"
)

// Admin makes, changes and shows topics and groups through the admin service, which records each change. Calls are not
// repeated. A change that failed on some brokers is an error, which names them and whose outcome is unknown, for the others
// have made it; made again, it does what is still missing. Where brokers do not answer, what the others have comes along with an error.
type Admin struct {
	client  *Client
	address string
}

// NewAdmin makes a client of the admin service at "host:port", with the TLS and the credentials of a client. It needs no
// closing of its own.
func NewAdmin(client *Client, address string) (*Admin, error) {
	if !isAddress(address) {
		return nil, fmt.Errorf("ariane: admin %q: host:port is expected", address)
	}
	return &Admin{client, address}, nil
}

// TopicSettings are what a topic is made with, or what of it is changed. Zero values: the broker's defaults, or unchanged.
type TopicSettings struct {
	// ReadQueues and WriteQueues are on each broker. When a topic is made, and only one is given, it holds for both.
	ReadQueues, WriteQueues int32
	Permission              namesrvv1.TopicPermission
	Type                    commonv1.MessageType
	// Attributes, such as "retention.ms". In a change an empty value removes one.
	Attributes map[string]string
	// Brokers that make or change it. None: all primaries.
	Brokers []string
}

// TopicInfo is a topic across brokers.
type TopicInfo struct {
	Name string
	// Parts are what each broker has of it.
	Parts []TopicPart
	// Uneven says that parts differ in more than their version.
	Uneven bool
	// MessageCount, SizeBytes and Groups, those that have consumed of it, are told of a single topic only.
	MessageCount, SizeBytes int64
	Groups                  []string
}

// TopicPart is what one broker has of a topic.
type TopicPart struct {
	Cluster, Broker         string
	ReadQueues, WriteQueues int32
	Permission              namesrvv1.TopicPermission
	Type                    commonv1.MessageType
	Attributes              map[string]string
}

// GroupSettings are what a consumer group is made with, or what of it is changed. Nil: the broker's defaults, or unchanged.
type GroupSettings struct {
	// ConsumeEnabled false pauses the group.
	ConsumeEnabled *bool
	// BroadcastEnabled allows members that each get every message.
	BroadcastEnabled *bool
	// MaxAttempts is how often a message that failed is tried again before it becomes a dead letter.
	MaxAttempts *int32
	// ReceiveInOrder hands out the messages of one message group one after the other, and MaxOrderedAttempts is how
	// often one of them is tried again.
	ReceiveInOrder     *bool
	MaxOrderedAttempts *int32
}

// GroupInfo is a consumer group across brokers.
type GroupInfo struct {
	Name string
	// Parts are its settings on each broker.
	Parts []GroupPart
	// Uneven says that parts differ in more than their version.
	Uneven  bool
	Members int32
	// Lag counts messages that it has not consumed yet; the oldest was stored at OldestStored, which is zero without any.
	Lag          int64
	OldestStored time.Time
	// DeadLetters are told of a single group only.
	DeadLetters int64
	Topics      []string
}

// GroupPart is how one broker has a group.
type GroupPart struct {
	Cluster, Broker                                  string
	ConsumeEnabled, BroadcastEnabled, ReceiveInOrder bool
	MaxAttempts, MaxOrderedAttempts                  int32
}

// Lag is how far a group is behind in one topic.
type Lag struct {
	Group, Topic string
	Messages     int64
	// Delay is the age of the oldest of them.
	Delay time.Duration
}

// ResetOffset is where a group goes on in one queue.
type ResetOffset struct {
	Broker        string
	QueueID       int32
	Offset        int64
	PreviousKnown bool
	Previous      int64
}

// CreateTopic makes a topic. Brokers that have it already with these settings count as done; where all have it, it is
// TOPIC_EXISTS.
func (a *Admin) CreateTopic(ctx context.Context, name string, settings TopicSettings) (TopicInfo, error) {
	read, write := settings.ReadQueues, settings.WriteQueues
	if read == 0 {
		read = write
	}
	if write == 0 {
		write = read
	}
	request := &adminv1.CreateTopicRequest{
		Topic: &brokerv1.Topic{
			Topic: name, ReadQueueCount: read, WriteQueueCount: write, Permission: settings.Permission,
			MessageType: settings.Type, Attributes: settings.Attributes,
		},
		BrokerNames: settings.Brokers,
	}
	answer, err := asked(ctx, a, request, adminv1.NewTopicServiceClient, adminv1.TopicServiceClient.CreateTopic)
	return topicOf(answer.GetTopic()), errors.Join(err, outcomesOf(answer.GetOutcomes()))
}

// UpdateTopic changes what is given of a topic. Fewer queues that are read are refused while they have messages.
func (a *Admin) UpdateTopic(ctx context.Context, name string, settings TopicSettings) (TopicInfo, error) {
	request := &adminv1.UpdateTopicRequest{
		Topic: name, BrokerNames: settings.Brokers, Permission: settings.Permission, Attributes: settings.Attributes,
		ReadQueueCount: given(settings.ReadQueues), WriteQueueCount: given(settings.WriteQueues), MessageType: given(settings.Type),
	}
	answer, err := asked(ctx, a, request, adminv1.NewTopicServiceClient, adminv1.TopicServiceClient.UpdateTopic)
	return topicOf(answer.GetTopic()), errors.Join(err, outcomesOf(answer.GetOutcomes()))
}

// DeleteTopic deletes a topic with its messages.
func (a *Admin) DeleteTopic(ctx context.Context, name string) error {
	answer, err := asked(ctx, a, &adminv1.DeleteTopicRequest{Topic: name}, adminv1.NewTopicServiceClient, adminv1.TopicServiceClient.DeleteTopic)
	return errors.Join(err, outcomesOf(answer.GetOutcomes()))
}

// Topic shows one topic.
func (a *Admin) Topic(ctx context.Context, name string) (TopicInfo, error) {
	answer, err := asked(ctx, a, &adminv1.GetTopicRequest{Topic: name}, adminv1.NewTopicServiceClient, adminv1.TopicServiceClient.GetTopic)
	return topicOf(answer.GetTopic()), errors.Join(ofQuestion(err), silentOf(answer.GetSilentBrokers()))
}

// Topics lists the topics of users whose names begin so, by name.
func (a *Admin) Topics(ctx context.Context, prefix string) ([]TopicInfo, error) {
	return listed(func(token string) ([]TopicInfo, string, error) {
		request := &adminv1.ListTopicsRequest{NamePrefix: prefix, PageToken: token}
		answer, err := asked(ctx, a, request, adminv1.NewTopicServiceClient, adminv1.TopicServiceClient.ListTopics)
		return mapped(answer.GetTopics(), topicOf), answer.GetNextPageToken(), errors.Join(ofQuestion(err), silentOf(answer.GetSilentBrokers()))
	})
}

// CreateGroup makes a consumer group; where all brokers have it, it is GROUP_EXISTS.
func (a *Admin) CreateGroup(ctx context.Context, name string, settings GroupSettings) (GroupInfo, error) {
	group := &brokerv1.ConsumerGroup{
		ConsumerGroup: name, ConsumeEnabled: settings.ConsumeEnabled, BroadcastEnabled: settings.BroadcastEnabled,
		AttemptsMax: settings.MaxAttempts, OrderedAttemptsMax: settings.MaxOrderedAttempts,
		ReceiveInOrder: settings.ReceiveInOrder != nil && *settings.ReceiveInOrder,
	}
	answer, err := asked(ctx, a, &adminv1.CreateGroupRequest{Group: group}, adminv1.NewGroupServiceClient, adminv1.GroupServiceClient.CreateGroup)
	return groupOf(answer.GetGroup()), errors.Join(err, outcomesOf(answer.GetOutcomes()))
}

// UpdateGroup changes what is given of a group.
func (a *Admin) UpdateGroup(ctx context.Context, name string, settings GroupSettings) (GroupInfo, error) {
	change := &brokerv1.ConsumerGroupChange{
		ConsumerGroup: name, ConsumeEnabled: settings.ConsumeEnabled, BroadcastEnabled: settings.BroadcastEnabled,
		AttemptsMax: settings.MaxAttempts, ReceiveInOrder: settings.ReceiveInOrder, OrderedAttemptsMax: settings.MaxOrderedAttempts,
	}
	answer, err := asked(ctx, a, &adminv1.UpdateGroupRequest{Group: change}, adminv1.NewGroupServiceClient, adminv1.GroupServiceClient.UpdateGroup)
	return groupOf(answer.GetGroup()), errors.Join(err, outcomesOf(answer.GetOutcomes()))
}

// DeleteGroup deletes a group with its offsets and its dead letters.
func (a *Admin) DeleteGroup(ctx context.Context, name string) error {
	answer, err := asked(ctx, a, &adminv1.DeleteGroupRequest{ConsumerGroup: name}, adminv1.NewGroupServiceClient, adminv1.GroupServiceClient.DeleteGroup)
	return errors.Join(err, outcomesOf(answer.GetOutcomes()))
}

// Group shows one group.
func (a *Admin) Group(ctx context.Context, name string) (GroupInfo, error) {
	answer, err := asked(ctx, a, &adminv1.GetGroupRequest{ConsumerGroup: name}, adminv1.NewGroupServiceClient, adminv1.GroupServiceClient.GetGroup)
	return groupOf(answer.GetGroup()), errors.Join(ofQuestion(err), silentOf(answer.GetSilentBrokers()))
}

// Groups lists the groups of users whose names begin so, by name.
func (a *Admin) Groups(ctx context.Context, prefix string) ([]GroupInfo, error) {
	return listed(func(token string) ([]GroupInfo, string, error) {
		request := &adminv1.ListGroupsRequest{NamePrefix: prefix, PageToken: token}
		answer, err := asked(ctx, a, request, adminv1.NewGroupServiceClient, adminv1.GroupServiceClient.ListGroups)
		return mapped(answer.GetGroups(), groupOf), answer.GetNextPageToken(), errors.Join(ofQuestion(err), silentOf(answer.GetSilentBrokers()))
	})
}

// Lags tells how far groups are behind, by group and topic: of one group and one topic, or, where they are empty, of all.
func (a *Admin) Lags(ctx context.Context, group, topic string) ([]Lag, error) {
	return listed(func(token string) ([]Lag, string, error) {
		request := &adminv1.ListGroupLagsRequest{ConsumerGroup: group, Topic: topic, PageToken: token}
		answer, err := asked(ctx, a, request, adminv1.NewLagServiceClient, adminv1.LagServiceClient.ListGroupLags)
		lags := mapped(answer.GetLags(), func(each *adminv1.GroupLag) Lag {
			return Lag{each.ConsumerGroup, each.Topic, each.MessageCount, each.GetDelay().AsDuration()}
		})
		return lags, answer.GetNextPageToken(), errors.Join(ofQuestion(err), silentOf(answer.GetSilentBrokers()))
	})
}

// ResetOffsets has a group go on in a topic with the first message of every queue that was stored at that time or later.
// The zero time is before all of them; a time that has not come is their end.
func (a *Admin) ResetOffsets(ctx context.Context, group, topic string, to time.Time) ([]ResetOffset, error) {
	request := &adminv1.ResetGroupOffsetsRequest{ConsumerGroup: group, Topic: topic, Target: &adminv1.ResetGroupOffsetsRequest_Time{Time: timestamppb.New(to)}}
	if to.IsZero() {
		request.Target = &adminv1.ResetGroupOffsetsRequest_Earliest{Earliest: true}
	}
	answer, err := asked(ctx, a, request, adminv1.NewGroupServiceClient, adminv1.GroupServiceClient.ResetGroupOffsets)
	offsets := mapped(answer.GetOffsets(), func(each *adminv1.GroupQueueOffset) ResetOffset {
		return ResetOffset{each.BrokerName, each.QueueId, each.QueueOffset, each.PreviousQueueOffset != nil, each.GetPreviousQueueOffset()}
	})
	return offsets, errors.Join(err, outcomesOf(answer.GetOutcomes()))
}

// asked makes one call of one of admin's services, in the name of the local user: an open cluster notes it in its audit
// trail.
func asked[S, R, A any](
	ctx context.Context, a *Admin, request R, service func(grpc.ClientConnInterface) S,
	call func(S, context.Context, R, ...grpc.CallOption) (A, error),
) (answer A, err error) {
	connection, err := a.client.connect(place{address: a.address, kind: "admin"})
	if err != nil {
		return answer, err
	}
	ctx, cancel := a.client.bounded(ctx)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "x-ariane-claimed-user", localUser())
	if answer, err = call(service(connection), ctx, request); err != nil {
		return answer, errorOf(err, a.address)
	}
	return answer, nil
}

func localUser() string {
	name, host := "somebody", "unknown"
	if known, err := user.Current(); err == nil {
		name = known.Username
	}
	if known, err := os.Hostname(); err == nil {
		host = known
	}
	return strings.Map(func(each rune) rune {
		if each < ' ' || each > '~' {
			return '?'
		}
		return each
	}, name+"@"+host)
}

// ofQuestion says of a question that failed that nothing has changed.
func ofQuestion(err error) error {
	var failure *Error
	if errors.As(err, &failure) {
		failure.OutcomeUnknown = false
	}
	return err
}

// listed goes on through all pages.
func listed[T any](page func(token string) ([]T, string, error)) ([]T, error) {
	var all []T
	var silent error
	for token := ""; ; {
		some, next, err := page(token)
		all = append(all, some...)
		silent = cmp.Or(silent, err)
		if token = next; token == "" {
			return all, silent
		}
	}
}

func outcomesOf(outcomes []*adminv1.BrokerOutcome) error {
	return errors.Join(mapped(outcomes, func(each *adminv1.BrokerOutcome) error {
		if each.Error == nil {
			return nil
		}
		failure := errorOfStatus(each.Error, "broker "+each.BrokerName)
		failure.OutcomeUnknown = true // Others may have made it.
		return failure
	})...)
}

func silentOf(brokers []*adminv1.SilentBroker) error {
	return errors.Join(mapped(brokers, func(each *adminv1.SilentBroker) error {
		return ofQuestion(errorOfStatus(each.Error, "broker "+each.BrokerName))
	})...)
}

func topicOf(topic *adminv1.ClusterTopic) TopicInfo {
	return TopicInfo{
		Name: topic.GetTopic(), Uneven: topic.GetUneven(), MessageCount: topic.GetMessageCount(), SizeBytes: topic.GetSizeBytes(),
		Groups: topic.GetConsumerGroups(),
		Parts: mapped(topic.GetPlacements(), func(each *adminv1.TopicPlacement) TopicPart {
			own := each.Topic
			return TopicPart{
				each.ClusterName, each.BrokerName, own.GetReadQueueCount(), own.GetWriteQueueCount(), own.GetPermission(),
				own.GetMessageType(), own.GetAttributes(),
			}
		}),
	}
}

func groupOf(group *adminv1.ClusterGroup) GroupInfo {
	known := GroupInfo{
		Name: group.GetConsumerGroup(), Uneven: group.GetUneven(), Members: group.GetMemberCount(), Lag: group.GetLagMessageCount(),
		DeadLetters: group.GetDeadLetterCount(), Topics: group.GetTopics(),
		Parts: mapped(group.GetPlacements(), func(each *adminv1.GroupPlacement) GroupPart {
			own := each.Group
			return GroupPart{
				each.ClusterName, each.BrokerName, own.GetConsumeEnabled(), own.GetBroadcastEnabled(), own.GetReceiveInOrder(),
				own.GetAttemptsMax(), own.GetOrderedAttemptsMax(),
			}
		}),
	}
	if oldest := group.GetOldestStoreTime(); oldest != nil {
		known.OldestStored = oldest.AsTime()
	}
	return known
}

func mapped[F, T any](all []F, to func(F) T) []T {
	made := make([]T, len(all))
	for place, each := range all {
		made[place] = to(each)
	}
	return made
}

// given is nil for a zero value: unchanged.
func given[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}
