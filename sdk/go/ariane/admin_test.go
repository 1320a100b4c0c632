package ariane

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	adminv1 "ariane.mq/go/arianepb/admin/v1"
)

// topics is an admin service where one of two brokers makes no topic.
type topics struct {
	adminv1.UnimplementedTopicServiceServer
	claimed []string
}

func (s *topics) CreateTopic(ctx context.Context, _ *adminv1.CreateTopicRequest) (*adminv1.CreateTopicResponse, error) {
	s.claimed = metadata.ValueFromIncomingContext(ctx, "x-ariane-claimed-user")
	refused := &status.Status{Code: int32(codes.FailedPrecondition), Message: "no room"}
	return &adminv1.CreateTopicResponse{Outcomes: []*adminv1.BrokerOutcome{{BrokerName: "broker-a"}, {BrokerName: "broker-b", Error: refused}}}, nil
}

func (s *topics) GetTopic(context.Context, *adminv1.GetTopicRequest) (*adminv1.GetTopicResponse, error) {
	return nil, grpcstatus.Error(codes.Unknown, "broken")
}

func TestAChangeThatFailedOnOneBrokerHasAnUnknownOutcomeAndAQuestionAKnownOne(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, service := grpc.NewServer(), &topics{}
	adminv1.RegisterTopicServiceServer(server, service)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	admin, err := NewAdmin(client(t, start(t, "")), listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var failure *Error
	_, err = admin.CreateTopic(context.Background(), topic, TopicSettings{})
	if !errors.As(err, &failure) || failure.Code != codes.FailedPrecondition || !failure.OutcomeUnknown {
		t.Fatal(err)
	}
	if len(service.claimed) != 1 || !strings.Contains(service.claimed[0], "@") {
		t.Fatal(service.claimed)
	}
	_, err = admin.Topic(context.Background(), topic)
	if !errors.As(err, &failure) || failure.Code != codes.Unknown || failure.OutcomeUnknown {
		t.Fatal(err)
	}
}
