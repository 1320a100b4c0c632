/**
 * The Java client of ArianeMQ: a thin layer over the stubs that are generated from the contract, in
 * {@code mq.ariane.broker.v1} and its neighbours.
 *
 * <p>A {@link mq.ariane.client.Client} knows the name servers and keeps one connection to each process. A
 * {@link mq.ariane.client.Producer} sends, a {@link mq.ariane.client.Consumer} receives and settles, a {@link
 * mq.ariane.client.TransactionProducer} sends messages that become visible when something else has happened, an {@link
 * mq.ariane.client.Admin} makes and shows topics and groups. All are safe for use by several threads. Calls block; their
 * deadline bounds them with all their repeats. What the cluster says against a call is an {@link
 * mq.ariane.client.ArianeException}.
 */
package mq.ariane.client;
