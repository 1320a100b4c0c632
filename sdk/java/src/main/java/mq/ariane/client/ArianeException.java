package mq.ariane.client;

import com.google.protobuf.Any;
import com.google.protobuf.DescriptorProtos.EnumValueOptions;
import com.google.protobuf.GeneratedMessage.GeneratedExtension;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.nio.channels.ClosedChannelException;
import java.time.Duration;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import mq.ariane.common.v1.ErrorReason;
import mq.ariane.common.v1.ReasonOptions;

/** What a process of the cluster, or gRPC on the way to it, said of a call. */
public final class ArianeException extends RuntimeException {
    private static final long serialVersionUID = 1L;
    private static final String DOMAIN = "ariane.mq";

    /**
     * What says that a topic without a route exists: name servers know the order of its queues, or remember a broker
     * that had it and is away.
     */
    private static final Set<String> EXISTS = Set.of("queue_order", "away_brokers");
    /** What says that it may: the same, or name servers have just started. */
    private static final Set<String> MAY_COME_BACK = Set.of("warming_up", "queue_order", "away_brokers");
    private static final Set<String> UNCONFIRMED_REASONS = Set.of("FLUSH_UNCONFIRMED", "REPLICATION_UNCONFIRMED");
    private static final Set<Status.Code> RETRIABLE_CODES = Set.of(Status.Code.UNAVAILABLE,
            Status.Code.DEADLINE_EXCEEDED, Status.Code.CANCELLED, Status.Code.INTERNAL, Status.Code.ABORTED);
    private static final Set<Status.Code> UNKNOWN_CODES = Set.of(Status.Code.UNAVAILABLE,
            Status.Code.DEADLINE_EXCEEDED, Status.Code.CANCELLED, Status.Code.INTERNAL, Status.Code.ABORTED,
            Status.Code.UNKNOWN, Status.Code.DATA_LOSS, Status.Code.RESOURCE_EXHAUSTED);

    private final Status.Code code;
    private final String reason;
    private final transient Map<String, String> metadata;
    private boolean retriable;
    private final Duration retryAfter;
    private boolean outcomeUnknown;

    private ArianeException(String peer, String text, Status.Code code, String reason, Map<String, String> metadata,
            Duration retryAfter, Throwable cause) {
        super((peer.isEmpty() ? "" : peer + ": ") + text + " [" + (wordOf(code, reason).isEmpty() ? code.name() : wordOf(code, reason)) + "]", cause);
        this.code = code;
        this.reason = wordOf(code, reason);
        this.metadata = metadata;
        this.retryAfter = retryAfter;
        // What gRPC says itself leaves open whether the call had its effect.
        retriable = reason.isEmpty() ? RETRIABLE_CODES.contains(code)
                : says(reason, ReasonOptions.retriable) || !Collections.disjoint(metadata.keySet(), MAY_COME_BACK);
        outcomeUnknown = reason.isEmpty() ? UNKNOWN_CODES.contains(code)
                : says(reason, ReasonOptions.outcomeUnknown);
    }

    /** A time that was over has the same word whoever noticed it. */
    private static String wordOf(Status.Code code, String reason) {
        return code == Status.Code.DEADLINE_EXCEEDED && reason.isEmpty() ? "DEADLINE_PASSED" : reason;
    }

    private ArianeException(ArianeException other) {
        super(other.getMessage(), other);
        code = other.code;
        reason = other.reason;
        metadata = other.metadata;
        retriable = other.retriable;
        retryAfter = other.retryAfter;
        outcomeUnknown = other.outcomeUnknown;
    }

    /** The code of gRPC. */
    public Status.Code code() {
        return code;
    }

    /** The contract's reason, without its prefix; empty where gRPC itself failed, but for a time that was over. */
    public String reason() {
        return reason;
    }

    /** Every number and name that the message speaks of. */
    public Map<String, String> metadata() {
        return metadata == null ? Map.of() : metadata; // It does not travel with a serialized exception.
    }

    /** Whether the same may succeed later, or elsewhere. */
    public boolean isRetriable() {
        return retriable;
    }

    /** Whether what was asked for may have happened. */
    public boolean isOutcomeUnknown() {
        return outcomeUnknown;
    }

    /** How long the process asks to wait before a repeat. */
    public Duration retryAfter() {
        return retryAfter;
    }

    /** Whether the same may pass later, or where the next route leads. */
    boolean isPassing() {
        return retriable || isRouting();
    }

    /** What the contract says of a reason. */
    private static boolean says(String reason, GeneratedExtension<EnumValueOptions, Boolean> option) {
        var value = ErrorReason.getDescriptor().findValueByName("ERROR_REASON_" + reason);
        if (value == null) { // Only a later version knows it, or there is none.
            return !reason.isEmpty() && option == ReasonOptions.outcomeUnknown;
        }
        return value.getOptions().getExtension(option);
    }

    /** The same for somebody else, with this as its cause. */
    ArianeException copy() {
        return new ArianeException(this);
    }

    /** Says what is wrong where nobody could be asked for routes. */
    ArianeException ofNameServer(String address) {
        if (code == Status.Code.UNIMPLEMENTED) {
            String text = address + " answers, and is no name server: is it the address of a broker?";
            return new ArianeException("", text, code, "NOT_NAME_SERVER", metadata(), retryAfter, this)
                    .withOutcome(false);
        }
        if (code == Status.Code.UNAVAILABLE && reason.isEmpty()) {
            String text = "no name server answered: " + getMessage().replace(" [" + code + "]", "");
            return new ArianeException("", text, code, "NAME_SERVERS_UNREACHABLE", metadata(), retryAfter, this);
        }
        return this;
    }

    /** Whether name servers have no route of a topic, and nothing to say that it exists. */
    boolean isTopicUnknown() {
        return reason.equals("ROUTE_NOT_FOUND") && Collections.disjoint(metadata().keySet(), EXISTS);
    }

    boolean isRouting() {
        return says(reason, ReasonOptions.routing);
    }

    boolean isUnconfirmed() {
        return UNCONFIRMED_REASONS.contains(reason);
    }

    ArianeException withOutcome(boolean unknown) {
        outcomeUnknown = unknown;
        return this;
    }

    /** A count with its thing: "1 message", "12 messages". */
    static String counted(long count, String thing) {
        return count + " " + thing + (count == 1 ? "" : "s");
    }

    static ArianeException of(Throwable error, String peer) {
        if (error instanceof ArianeException known) {
            return known;
        }
        if (error.getCause() instanceof StatusRuntimeException refused) {
            return of(refused, peer); // A login that a call waited for.
        }
        com.google.rpc.Status said = StatusProto.fromThrowable(error);
        if (said == null) {
            return new ArianeException(peer, String.valueOf(error), Status.Code.UNKNOWN, "", Map.of(), Duration.ZERO,
                    error);
        }
        return of(said, peer, error);
    }

    static ArianeException of(com.google.rpc.Status said, String peer) {
        return of(said, peer, null);
    }

    static ArianeException of(Status.Code code, String reason, String text) {
        return new ArianeException("", text, code, reason, Map.of(), Duration.ZERO, null);
    }

    /** The same where it may succeed later. */
    static ArianeException retriable(Status.Code code, String reason, String text) {
        ArianeException made = of(code, reason, text);
        made.retriable = true;
        return made;
    }

    /** No reply came in time: a sent request may have had its effect. */
    static ArianeException requestTimeout(String text, boolean sent) {
        return retriable(Status.Code.DEADLINE_EXCEEDED, "REQUEST_TIMEOUT", text).withOutcome(sent);
    }

    static ArianeException interrupted() {
        return of(Status.Code.CANCELLED, "", "interrupted");
    }

    private static ArianeException of(com.google.rpc.Status said, String peer, Throwable cause) {
        String reason = "";
        Map<String, String> metadata = Map.of();
        Duration retryAfter = Duration.ZERO;
        try {
            for (Any detail : said.getDetailsList()) {
                if (detail.is(ErrorInfo.class)) {
                    ErrorInfo info = detail.unpack(ErrorInfo.class);
                    if (info.getDomain().equals(DOMAIN)) {
                        reason = info.getReason();
                        metadata = info.getMetadataMap();
                    }
                } else if (detail.is(RetryInfo.class)) {
                    retryAfter = Times.of(detail.unpack(RetryInfo.class).getRetryDelay());
                }
            }
        } catch (InvalidProtocolBufferException broken) {
            return new ArianeException(peer, said.getMessage(), Status.Code.UNKNOWN, "", Map.of(), Duration.ZERO,
                    broken);
        }
        Status.Code code = Status.fromCodeValue(said.getCode()).getCode();
        Throwable below = cause == null ? null : cause.getCause(); // gRPC itself says "io exception" only,
        while (below != null && below.getCause() != null) { // and TLS "problem".
            below = below.getCause();
        }
        if (code == Status.Code.UNKNOWN && below instanceof ClosedChannelException) {
            code = Status.Code.UNAVAILABLE; // gRPC's word for a connection that ends before it is ready.
        }
        String text = below == null ? said.getMessage() : said.getMessage() + ": " + below.getMessage();
        return new ArianeException(peer, text, code, reason, metadata, retryAfter, cause);
    }
}
