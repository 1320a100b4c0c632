package ariane

import (
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
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
