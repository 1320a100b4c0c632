/**
 * Spans and measurements of OpenTelemetry; needs {@code io.opentelemetry:opentelemetry-api}, which the client itself does
 * not.
 */
package mq.ariane.client.opentelemetry;
