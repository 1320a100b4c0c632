package ariane

import (
	"net"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"

	commonv1 "ariane.mq/go/arianepb/common/v1"
)

func refused(t *testing.T, reason string) *Error {
	t.Helper()
	info, err := anypb.New(&errdetails.ErrorInfo{Domain: errorDomain, Reason: reason})
	if err != nil {
		t.Fatal(err)
	}
	return errorOfStatus(&statuspb.Status{Code: int32(codes.Aborted), Details: []*anypb.Any{info}}, "broker-a:1")
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
