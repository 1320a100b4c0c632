package ariane

import (
	"net"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	commonv1 "ariane.mq/go/arianepb/common/v1"
)

func saidOf(reason string, metadata ...string) *statuspb.Status {
	info := &errdetails.ErrorInfo{Domain: errorDomain, Reason: reason, Metadata: map[string]string{}}
	for _, name := range metadata {
		info.Metadata[name] = "x"
	}
	packed, err := anypb.New(info)
	if err != nil {
		panic(err)
	}
	return &statuspb.Status{Code: int32(codes.Aborted), Details: []*anypb.Any{packed}}
}

func refused(t *testing.T, reason string) *Error {
	t.Helper()
	return errorOfStatus(saidOf(reason), "broker-a:1")
}

func TestATopicThatMayComeBackIsWaitedFor(t *testing.T) {
	for why, waits := range map[string]bool{"warming_up": true, "queue_order": true, "away_brokers": true, "topic": false} {
		broker := start(t, "broker-a")
		nameServers := []*process{start(t, "", broker), start(t, "", broker)}
		for place, each := range nameServers { // Whichever is asked first has none.
			other := nameServers[1-place]
			each.route = func() error {
				if other.asked("route") > 0 {
					return nil
				}
				return status.ErrorProto(saidOf("ROUTE_NOT_FOUND", why))
			}
		}
		_, err := NewProducer(client(t, nameServers...)).Send(t.Context(), Message{Topic: topic, Body: []byte("x")})
		if waits != (err == nil) {
			t.Errorf("%s: %v", why, err)
		}
	}
}

func TestWhoCannotBeAskedForRoutesIsSaid(t *testing.T) {
	nobody := errorOfStatus(&statuspb.Status{Code: int32(codes.Unavailable), Message: "refused"}, "nobody:1").ofNameServer()
	if nobody.Reason != "NAME_SERVERS_UNREACHABLE" || !nobody.Retriable ||
		nobody.Error() != "ariane: no name server answered: nobody:1: refused [NAME_SERVERS_UNREACHABLE]" {
		t.Error(nobody)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other := grpc.NewServer()
	go func() { _ = other.Serve(listener) }()
	t.Cleanup(other.Stop)
	client, err := NewClient([]string{listener.Addr().String()}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Route(t.Context(), topic)
	if ReasonOf(err) != "NOT_NAME_SERVER" || !strings.Contains(err.Error(), "is no name server") {
		t.Error(err)
	}
}

func TestWhatAReasonMeansIsReadFromTheContract(t *testing.T) {
	for reason, meant := range map[string][3]bool{ // Retriable, unknown, routing.
		"SERVICE_BUSY":       {true, false, false},
		"FLUSH_UNCONFIRMED":  {false, true, false},
		"BROKER_NOT_PRIMARY": {true, false, true},
		"TOPIC_NOT_FOUND":    {false, false, true},
		"FIELD_INVALID":      {false, false, false},
		"MOON_IN_THE_WAY":    {false, true, false}, // Of a later version.
	} {
		if e := refused(t, reason); meant != [3]bool{e.Retriable, e.OutcomeUnknown, e.routing()} {
			t.Errorf("%s is %+v", reason, e)
		}
	}
	retriable, unknown := 0, 0
	for name := range commonv1.ErrorReason_value {
		e := refused(t, name[len("ERROR_REASON_"):])
		if e.Retriable && e.OutcomeUnknown {
			t.Errorf("%s would be repeated though it may have happened", name)
		}
		if e.Retriable {
			retriable++
		}
		if e.OutcomeUnknown {
			unknown++
		}
	}
	if retriable == 0 || unknown == 0 || retriable+unknown >= len(commonv1.ErrorReason_value)/2 {
		t.Errorf("%d may be repeated, %d are unknown", retriable, unknown)
	}
}
