package ariane

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A message that a listener has had for so long is told of, and again after twice as long.
const (
	standstill   = time.Minute
	standstillIn = 10 * time.Second
)

// longWork knows what a listener has. Brokers keep it from others for as long as the consumer runs, so nobody else
// would know of a listener that is stuck.
type longWork struct {
	group     string
	lock      sync.Mutex
	begun     int
	had       map[int]work
	told      int
	tellAfter time.Duration
}

type work struct {
	place, id string
	since     time.Time
}

// begin notes that the listener has a message, until the function that it returns is called.
func (w *longWork) begin(delivery *Delivery, now time.Time) (end func()) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.begun++
	number := w.begun
	if w.had == nil {
		w.had = map[int]work{}
	}
	place := fmt.Sprintf("%s@%s#%d", delivery.Topic, delivery.BrokerName, delivery.QueueID)
	w.had[number] = work{place, delivery.ID, now}
	return func() {
		w.lock.Lock()
		defer w.lock.Unlock()
		delete(w.had, number)
	}
}

// look says what is to be told of the oldest message; nothing if it is not old.
func (w *longWork) look(now time.Time) string {
	w.lock.Lock()
	defer w.lock.Unlock()
	oldest := 0
	for number := range w.had {
		if oldest == 0 || number < oldest {
			oldest = number
		}
	}
	if oldest == 0 {
		return ""
	}
	if oldest != w.told {
		w.told, w.tellAfter = oldest, standstill
	}
	had := w.had[oldest]
	old := now.Sub(had.since)
	if old < w.tellAfter {
		return ""
	}
	w.tellAfter *= 2
	return fmt.Sprintf("%s of group %s: no progress for %.0f s; the listener has %s, the oldest is %s",
		had.place, w.group, old.Seconds(), counted(len(w.had), "message"), had.id)
}

// watch looks now and then until the context ends.
func (w *longWork) watch(ctx context.Context, tell func(text string)) {
	ticker := time.NewTicker(standstillIn)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			if text := w.look(now); text != "" {
				tell(text)
			}
		}
	}
}
