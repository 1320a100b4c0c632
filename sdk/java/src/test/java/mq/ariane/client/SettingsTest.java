package mq.ariane.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import mq.ariane.common.v1.FilterKind;
import org.junit.jupiter.api.Test;

/** What settings take, and what they refuse before anything is called. */
class SettingsTest {
    @Test
    void eachTopicHasAFilterOfItsOwn() {
        ConsumerSettings settings = ConsumerSettings.builder("waiters").topic("orders").tags("hot").topic("bills")
                .topic("menus").sql("price > 7").byPriority().maxMessages(5).invisible(Duration.ofSeconds(9)).build();
        assertEquals(List.of("orders", "bills", "menus"), settings.topics());
        assertEquals("hot", settings.wanted.get(0).filter().getText());
        assertNull(settings.wanted.get(1).filter());
        assertEquals(FilterKind.FILTER_KIND_SQL92, settings.wanted.get(2).filter().getKind());
        assertTrue(settings.byPriority);
        assertEquals(5, settings.maxMessages);
        assertEquals(Duration.ofSeconds(9), settings.invisible);
    }

    @Test
    void whatAConsumerCannotWantIsRefused() {
        ConsumerSettings.Builder builder = ConsumerSettings.builder("waiters");
        assertThrows(IllegalArgumentException.class, builder::build, "no topic");
        assertThrows(IllegalArgumentException.class, () -> builder.tags("hot"), "of no topic");
        builder.topic("orders").tags("hot");
        assertThrows(IllegalArgumentException.class, () -> builder.sql("x = 1"), "a second filter");
        assertThrows(IllegalArgumentException.class, () -> builder.topic("orders"), "twice");
    }

    @Test
    void settingsStayWhenTheirBuilderGoesOn() {
        ConsumerSettings.Builder builder = ConsumerSettings.builder("waiters").topic("orders");
        ConsumerSettings first = builder.build();
        assertEquals(2, builder.topic("bills").maxMessages(1).build().topics().size());
        assertEquals(List.of("orders"), first.topics());
        assertEquals(32, first.maxMessages);
    }

    @Test
    void aClientProvesWhoItIsInOneWay() {
        ClientSettings.Builder builder = ClientSettings.builder().credentials(Path.of("waiter.key"));
        assertEquals(Path.of("waiter.key"), builder.build().credentials);
        ClientSettings told = builder.token(() -> "t").build();
        assertNull(told.credentials);
        assertTrue(told.logsIn());
        assertNull(builder.credentials(Path.of("waiter.key")).build().token);
    }

    @Test
    void whatAClientCannotDoIsRefused() {
        ClientSettings.Builder builder = ClientSettings.builder();
        assertThrows(IllegalArgumentException.class, () -> builder.callTimeout(Duration.ofMillis(-1)));
        assertThrows(IllegalArgumentException.class, () -> builder.tryTimeout(Duration.ofMillis(-1)));
        assertThrows(IllegalArgumentException.class, () -> builder.maxMessageBytes(0));
        assertThrows(IllegalArgumentException.class, () -> builder.producerGroup("two words"));
        ClientSettings settings = builder.producerGroup("tills").build();
        assertTrue(settings.userAgent("7").endsWith(" client/7 producer-group/tills"));
        assertFalse(ClientSettings.defaults().userAgent("7").contains("producer-group"));
    }
}
