package mq.ariane.client;

import mq.ariane.broker.v1.TransactionOutcome;

/** How a transaction ended. */
public enum Outcome {
    /** Not known yet: the cluster asks again later. */
    UNKNOWN(TransactionOutcome.TRANSACTION_OUTCOME_UNKNOWN),
    /** The message becomes visible. */
    COMMIT(TransactionOutcome.TRANSACTION_OUTCOME_COMMIT),
    /** The message never becomes visible. */
    ROLLBACK(TransactionOutcome.TRANSACTION_OUTCOME_ROLLBACK);

    final TransactionOutcome wire;

    Outcome(TransactionOutcome wire) {
        this.wire = wire;
    }
}
