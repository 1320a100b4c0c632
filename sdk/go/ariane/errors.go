package ariane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
)

// What a reason means for whoever called; docs/errors.md of ArianeMQ has the whole table.
var (
	retriableReasons = []string{"SERVICE_STARTING", "SERVICE_DRAINING", "SERVICE_BUSY", "STORE_FULL", "STORE_POISONED",
		"HELD_PULLS_EXHAUSTED", "QUEUE_UNDER_REPAIR", "GROUP_PAUSED", "NAME_SERVERS_UNREACHABLE", "QUEUE_ORDER_UNKNOWN",
		"BROKER_NOT_PRIMARY", "DEADLINE_PASSED", "TOO_FEW_IN_SYNC", "PEER_UNREACHABLE", "QUOTA_EXCEEDED"}
	unknownReasons = []string{"INTERNAL_FAULT", "FLUSH_UNCONFIRMED", "REPLICATION_UNCONFIRMED", "SEQUENCE_PASSED",
		"CLIENT_SILENT", "CHANGE_UNCONFIRMED"}
	routingReasons = []string{"TOPIC_NOT_FOUND", "TOPIC_NOT_WRITABLE", "QUEUE_NOT_FOUND", "BROKER_NOT_PRIMARY"}
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
	return &Error{Code: codes.FailedPrecondition, Message: "the client is closed", ended: ErrClosed}
}

// ReasonOf tells the contract's reason of an error, and "" for errors of others.
func ReasonOf(err error) string {
	var known *Error
	if errors.As(err, &known) {
		return known.Reason
	}
	return ""
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
	_, warming := known.Metadata["warming_up"]
	known.Retriable = warming || slices.Contains(retriableReasons, known.Reason)
	known.OutcomeUnknown = slices.Contains(unknownReasons, known.Reason)
	return known
}

func (e *Error) routing() bool { return slices.Contains(routingReasons, e.Reason) }

// passing says whether another try, maybe elsewhere, may succeed.
func (e *Error) passing() bool { return e.Retriable || e.routing() }

// unconfirmed says whether what is stored was not as safe in time as promised: a repeat waits for it.
func (e *Error) unconfirmed() bool {
	return e.Reason == "FLUSH_UNCONFIRMED" || e.Reason == "REPLICATION_UNCONFIRMED"
}
