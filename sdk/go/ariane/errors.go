package ariane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	commonv1 "ariane.mq/go/arianepb/common/v1"
)

const errorDomain = "ariane.mq"

// Reasons that a program may want to tell apart; [Error.Reason] may be any of the contract.
const (
	ReasonTopicNotFound        = "TOPIC_NOT_FOUND"
	ReasonRouteNotFound        = "ROUTE_NOT_FOUND"
	ReasonMessageTooLarge      = "MESSAGE_TOO_LARGE"
	ReasonMessageNotFound      = "MESSAGE_NOT_FOUND"
	ReasonReceiptHandleExpired = "RECEIPT_HANDLE_EXPIRED"
	ReasonTransactionDecided   = "TRANSACTION_DECIDED"
	ReasonDeadlinePassed       = "DEADLINE_PASSED"
	ReasonRequestTimeout       = "REQUEST_TIMEOUT"
)

// Error is what a process of the cluster, or gRPC on the way to it, said of a call.
type Error struct {
	// Code is gRPC's.
	Code codes.Code
	// Reason is the contract's, without its prefix; empty where gRPC itself failed, but for a time that was over.
	Reason string
	// Message is for people.
	Message string
	// Metadata has every number and name that the message speaks of.
	Metadata map[string]string
	// Retriable says whether the same may succeed later, or elsewhere.
	Retriable bool
	// OutcomeUnknown says whether what was asked for may have happened.
	OutcomeUnknown bool
	// RetryAfter is how long the process asks to wait before.
	RetryAfter time.Duration
	// Peer is whom the call was to, "host:port".
	Peer string

	ended error
}

func (e *Error) Error() string {
	word := e.Reason
	if word == "" {
		word = e.Code.String()
	}
	if e.Peer == "" {
		return fmt.Sprintf("ariane: %s [%s]", e.Message, word)
	}
	return fmt.Sprintf("ariane: %s: %s [%s]", e.Peer, e.Message, word)
}

// Is makes errors.Is hold for [context.DeadlineExceeded] and [context.Canceled], where gRPC says so.
func (e *Error) Is(target error) bool {
	return target == context.DeadlineExceeded && e.Code == codes.DeadlineExceeded ||
		target == context.Canceled && e.Code == codes.Canceled
}

// Unwrap is why there were no more tries: the error of the context that ended, or [ErrClosed].
func (e *Error) Unwrap() error { return e.ended }

// ErrClosed holds, by errors.Is, for calls of a client, or of a consumer, that was closed.
var ErrClosed = errors.New("ariane: the client is closed")

func closedError() *Error {
	return &Error{
		Code: codes.FailedPrecondition, Reason: "CLIENT_NOT_RUNNING", Message: "the client is closed", ended: ErrClosed,
	}
}

// ReasonOf tells the contract's reason of an error, and "" for errors of others.
func ReasonOf(err error) string {
	var known *Error
	if errors.As(err, &known) {
		return known.Reason
	}
	return ""
}

// counted is a count with its thing: "1 message", "12 messages".
func counted(count int, thing string) string {
	if count == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", count, thing)
}

func errorOf(err error, peer string) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return errorOfStatus(status.FromContextError(err).Proto(), peer)
	}
	return errorOfStatus(status.Convert(err).Proto(), peer)
}

func errorOfStatus(said *statuspb.Status, peer string) *Error {
	known := &Error{Code: codes.Code(said.GetCode()), Message: said.GetMessage(), Peer: peer}
	for _, packed := range said.GetDetails() {
		detail, err := packed.UnmarshalNew()
		if err != nil {
			continue // A detail of a type that only a later version knows.
		}
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.Domain == errorDomain {
				known.Reason, known.Metadata = detail.Reason, detail.Metadata
			}
		case *errdetails.RetryInfo:
			known.RetryAfter = detail.RetryDelay.AsDuration()
		}
	}
	if known.Reason == "" { // Whether the call has had its effect is not known then.
		switch known.Code {
		case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Internal, codes.Aborted:
			known.Retriable, known.OutcomeUnknown = true, true
		case codes.Unknown, codes.DataLoss, codes.ResourceExhausted:
			known.OutcomeUnknown = true
		}
		if known.Code == codes.DeadlineExceeded {
			known.Reason = ReasonDeadlinePassed
		}
		return known
	}
	known.Retriable = known.says(commonv1.E_Retriable) || known.mayComeBack()
	known.OutcomeUnknown = known.says(commonv1.E_OutcomeUnknown)
	return known
}

// ofNameServer says what is wrong where nobody could be asked for routes.
func (e *Error) ofNameServer() *Error {
	switch {
	case e.Code == codes.Unimplemented:
		e.Reason, e.OutcomeUnknown = "NOT_NAME_SERVER", false
		e.Message = e.Peer + " answers, and is no name server: is it the address of a broker?"
		e.Peer = ""
	case e.Code == codes.Unavailable && e.Reason == "":
		e.Reason = "NAME_SERVERS_UNREACHABLE"
		e.Message = "no name server answered: " + e.Peer + ": " + e.Message
		e.Peer = ""
	}
	return e
}

// exists says whether a topic without a route does: name servers know the order of its queues, or remember a broker
// that had it and is away.
func (e *Error) exists() bool { return e.tells("queue_order") || e.tells("away_brokers") }

// mayComeBack says whether it may: name servers have just started.
func (e *Error) mayComeBack() bool { return e.exists() || e.tells("warming_up") }

func (e *Error) tells(what string) bool {
	_, said := e.Metadata[what]
	return said
}

func (e *Error) routing() bool { return e.says(commonv1.E_Routing) }

// says tells what the contract says of the reason.
func (e *Error) says(option protoreflect.ExtensionType) bool {
	reasons := commonv1.ErrorReason(0).Descriptor().Values()
	reason := reasons.ByName(protoreflect.Name("ERROR_REASON_" + e.Reason))
	if reason == nil { // Only a later version knows it, or there is none.
		return e.Reason != "" && option == commonv1.E_OutcomeUnknown
	}
	return proto.GetExtension(reason.Options(), option).(bool)
}

// passing says whether another try, maybe elsewhere, may succeed.
func (e *Error) passing() bool { return e.Retriable || e.routing() }

// unconfirmed says whether what is stored was not as safe in time as promised: a repeat waits for it.
func (e *Error) unconfirmed() bool {
	return e.Reason == "FLUSH_UNCONFIRMED" || e.Reason == "REPLICATION_UNCONFIRMED"
}
