package ariane

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestASourceThatHangsHoldsNobodyUp reads a pipe that nobody writes into: as a file of a server that is away.
func TestASourceThatHangsHoldsNobodyUp(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "names")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	of := &sources{texts: []string{"file:" + pipe}, found: map[string][]string{}}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := of.addresses(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("it waited for the source, or did not: %v", err)
	}
	of.doubt()
	old := []string{"127.0.0.1:1"}
	of.mu.Lock()
	of.all = old
	of.mu.Unlock()
	if known, err := of.addresses(ctx); err != nil || !slices.Equal(known, old) {
		t.Fatalf("what was known does not hold: %v, %v", known, err)
	}

	if err := os.WriteFile(pipe, []byte("# ours\n127.0.0.1:2, 127.0.0.1:3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	expected := []string{"127.0.0.1:2", "127.0.0.1:3"}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		known, err := of.addresses(t.Context())
		if err == nil && slices.Equal(known, expected) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("what was read is not known: %v, %v", known, err)
		}
	}
}

func TestTheEnvironmentNamesNameServers(t *testing.T) {
	t.Setenv("ARIANE_NAME_SERVERS", "127.0.0.1:2; 127.0.0.1:3,")
	client, err := NewClient(nil, Options{})
	if err != nil || !slices.Equal(client.sources.texts, []string{"127.0.0.1:2", "127.0.0.1:3"}) {
		t.Fatalf("%v: %v", client, err)
	}
	client.Close()
	t.Setenv("ARIANE_NAME_SERVERS", "")
	if _, err := NewClient(nil, Options{}); err == nil || !strings.HasSuffix(err.Error(), "pass it, or set ARIANE_NAME_SERVERS") {
		t.Fatal(err)
	}
}

func TestWhatIsNoSourceAndNoAddressIsRefused(t *testing.T) {
	for _, text := range []string{"dns:names", "dns:names:0", "dns:names:65536", "file:", "http://", "ftp://names/list", "names"} {
		if _, err := NewClient([]string{text}, Options{}); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
	for _, text := range []string{"dns:names:9876", "file:names", "http://names/list", "[::1]:9876"} {
		if _, err := NewClient([]string{text}, Options{}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
