package ariane

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	commonv1 "ariane.mq/go/arianepb/common/v1"
)

// Request sends a message, and waits for the first reply, for as long as the context does; later ones, and those of
// other groups, are dropped. The first request of a client takes longer: it begins to read replies, and makes their topic
// where there is none. An error of reason [ReasonRequestTimeout] says that no reply came in time: where its outcome is
// unknown, the request is stored, and somebody may have acted on it.
func (p *Producer) Request(ctx context.Context, message Message) (Message, error) {
	if err := message.check(); err != nil {
		return Message{}, err
	}
	if !message.DeliverAt.IsZero() {
		return Message{}, errors.New("ariane: a request cannot be delayed")
	}
	ctx, cancel := p.client.bounded(ctx)
	defer cancel()
	cluster, err := p.client.clusterOf(ctx, message.Topic)
	if err != nil {
		return Message{}, err
	}
	inbox := p.client.inbox
	if err := inbox.open(ctx, cluster); err != nil {
		if ctx.Err() != nil {
			err = requestTimeout(ctx, "not ready to get a reply in time; the request was not sent")
		}
		return Message{}, err
	}
	correlation := newID()
	reply := inbox.expect(correlation)
	defer inbox.forget(correlation)
	end, _ := ctx.Deadline()
	_, err = p.send(ctx, message, &commonv1.ReplyAddress{
		CorrelationId: correlation, ClientId: p.client.id, TimeToLive: durationpb.New(time.Until(end)),
	})
	if err != nil {
		return Message{}, err
	}
	select {
	case came := <-reply:
		replied, compression := messageOf(came)
		if compression != Uncompressed {
			return replied, errors.New("ariane: the body of the reply is damaged")
		}
		return replied, nil
	case <-ctx.Done():
		failure := requestTimeout(ctx, "no reply came in time")
		failure.OutcomeUnknown = true
		return Message{}, failure
	case <-inbox.ctx.Done():
		failure := closedError()
		failure.OutcomeUnknown = true
		return Message{}, failure
	}
}

// clusterOf is that of a topic, whose brokers take the requests.
func (c *Client) clusterOf(ctx context.Context, topic string) (string, error) {
	route, err := c.Route(ctx, topic)
	if err == nil && len(route.Brokers) == 0 {
		err = &Error{Code: codes.Unavailable, Reason: ReasonRouteNotFound, Message: "no broker has topic " + topic + " now", Retriable: true}
	}
	if err != nil {
		return "", err
	}
	return route.Brokers[0].ClusterName, nil
}

// requestTimeout says that a context ended while a request waited.
func requestTimeout(ctx context.Context, text string) *Error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return &Error{Code: codes.Canceled, Message: text, Retriable: true, ended: ctx.Err()}
	}
	return &Error{
		Code: codes.DeadlineExceeded, Reason: ReasonRequestTimeout, Message: text, Retriable: true, ended: ctx.Err(),
	}
}

// Reply answers a request that a consumer received. Of the message its body, its keys and its properties are sent. What
// nobody waits for a reply to is refused as NO_REQUEST.
func (p *Producer) Reply(ctx context.Context, request Delivery, reply Message) (Receipt, error) {
	if request.replyTo == nil {
		return Receipt{}, &Error{
			Code: codes.InvalidArgument, Reason: "NO_REQUEST", Message: "message " + request.ID + " is no request: nobody waits for a reply",
		}
	}
	answer := Message{Topic: request.replyTo.ReplyTopic, Body: reply.Body, Keys: reply.Keys, Properties: reply.Properties, ID: reply.ID}
	if err := answer.check(); err != nil {
		return Receipt{}, err
	}
	return p.send(ctx, answer, request.replyTo)
}
