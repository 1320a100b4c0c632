package ariane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc/codes"
)

const (
	// sourceLife is how long what a source of addresses said is believed.
	sourceLife     = 30 * time.Second
	sourceWait     = 3 * time.Second
	sourceBytesMax = 64 << 10
)

var (
	sourceText    = regexp.MustCompile(`^(file:.+|https?://[^\s/]+(/\S*)?)$`)
	noHost        = regexp.MustCompile(`[\s,;/]`)
	addressComma  = regexp.MustCompile(`[\s,;]+`)
	commentedLine = regexp.MustCompile(`(?m)^\s*#.*$`)
	// A proxy of the environment is for pages of the internet.
	sourceClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
)

// sources are addresses of name servers, and where more of them are read, again and again: dns:host:port,
// file:path or a URL.
type sources struct {
	texts   []string
	reading singleflight.Group
	found   map[string][]string // Of each source, the last that it had; only a reading touches it.

	mu    sync.Mutex // Never held while something is read: a file or a page may take its time.
	all   []string
	until time.Time
}

// addresses are those that are known now. Old ones hold while they are read again; without any, it waits.
func (s *sources) addresses(ctx context.Context) ([]string, error) {
	s.mu.Lock()
	all, fresh := s.all, time.Now().Before(s.until)
	s.mu.Unlock()
	if fresh {
		return all, nil
	}
	reading := s.reading.DoChan("", s.read)
	if len(all) > 0 {
		return all, nil
	}
	select {
	case got := <-reading:
		if got.Err != nil {
			return nil, got.Err
		}
		return got.Val.([]string), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *sources) read() (any, error) {
	var all []string
	var failures []error
	for _, text := range s.texts {
		if !isSource(text) {
			all = append(all, text)
			continue
		}
		found, err := within(context.Background(), sourceWait, func(ctx context.Context) ([]string, error) { return readSource(ctx, text) })
		if err == nil && len(found) == 0 {
			err = errors.New("it has no addresses")
		}
		if err == nil {
			s.found[text] = found
		} else {
			failures = append(failures, fmt.Errorf("%s: %w", text, err))
		}
		all = append(all, s.found[text]...)
	}
	if len(all) == 0 {
		return nil, &Error{
			Code: codes.Unavailable, Reason: "NAME_SERVERS_UNREACHABLE", Retriable: true,
			Message: "no name server is known: " + errors.Join(failures...).Error(),
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.until = all, time.Now().Add(sourceLife)
	return all, nil
}

// doubt has sources read again: others may be known by now.
func (s *sources) doubt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Time{}
}

// isSource says whether a text names a source of addresses, rather than being one.
func isSource(text string) bool {
	name, is := strings.CutPrefix(text, "dns:")
	return is && isAddress(name) || sourceText.MatchString(text)
}

func isAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	number, wrong := strconv.ParseUint(port, 10, 16)
	return err == nil && wrong == nil && host != "" && number != 0 && !noHost.MatchString(host)
}

func readSource(ctx context.Context, text string) ([]string, error) {
	if name, is := strings.CutPrefix(text, "dns:"); is {
		host, port, err := net.SplitHostPort(name)
		if err != nil {
			return nil, err
		}
		found, err := net.DefaultResolver.LookupHost(ctx, host)
		slices.Sort(found)
		for place, each := range found {
			found[place] = net.JoinHostPort(each, port)
		}
		return found, err
	}
	var content []byte
	var err error
	if path, is := strings.CutPrefix(text, "file:"); is {
		content, err = os.ReadFile(path)
	} else {
		content, err = fetchSource(ctx, text)
	}
	if err != nil {
		return nil, err
	}
	words := addressComma.Split(commentedLine.ReplaceAllString(string(content), ""), -1)
	words = slices.DeleteFunc(words, func(word string) bool { return word == "" })
	for _, word := range words {
		if !isAddress(word) {
			return nil, fmt.Errorf("%.100q is no host:port", word)
		}
	}
	return words, nil
}

func fetchSource(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := sourceClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, sourceBytesMax))
}
