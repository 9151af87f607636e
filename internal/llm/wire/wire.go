// Package wire holds what the adapters of HTTP providers share: the request, the reading of event streams and of
// refusals, and the merging of streamed pieces.
//
// Promises: what a server sends is a stranger's bytes; nothing here panics on them or holds more of them than
// MaxAnswerBytes. No error text holds the key, not even where a server repeats it. No request is repeated and no
// redirect is followed, so that a key goes to the configured address and nowhere else.
package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/inspan/inspan/internal/llm"
)

// MaxAnswerBytes is how much a server may send for one answer or one refusal.
const MaxAnswerBytes = 64 << 20

// ErrTooMuch ends the reading of an answer larger than MaxAnswerBytes.
var ErrTooMuch = fmt.Errorf("answer is larger than %d bytes", MaxAnswerBytes)

// ErrCut is a stream that ended before its answer did.
var ErrCut = errors.New("stream ended before the answer was complete")

// Provider is the far side of an adapter, for its errors.
type Provider struct {
	// Name of the adapter; KeyEnv the environment variable where a person puts the key.
	Name, KeyEnv string
	// Key is taken out of every text.
	Key string
}

// Client wraps base, or a client with the default transport where base is nil: it follows no redirects and ends an
// answer at MaxAnswerBytes.
func Client(base *http.Client) *http.Client {
	c := &http.Client{}
	if base != nil {
		*c = *base
	}
	c.Transport = limiter{next: c.Transport}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

type limiter struct{ next http.RoundTripper }

// RoundTrip sends req and limits the answer's body.
func (l limiter) RoundTrip(req *http.Request) (*http.Response, error) {
	next := l.next
	if next == nil {
		next = http.DefaultTransport
	}
	res, err := next.RoundTrip(req)
	if err == nil && res.Body != nil {
		res.Body = &limitedBody{ReadCloser: res.Body, left: MaxAnswerBytes}
	}
	return res, err
}

type limitedBody struct {
	io.ReadCloser
	left int64
}

// Read fails with ErrTooMuch once more than the limit came.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, ErrTooMuch
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	return n, err
}

// CheckBaseURL refuses an address that is no absolute http or https URL, or that carries a password. Empty is fine: it
// means the provider's own.
func CheckBaseURL(base string) error {
	if base == "" {
		return nil
	}
	u, err := url.Parse(base)
	if err != nil {
		return errors.New("base url cannot be read; write it as https://host/path")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("base url is not an absolute http or https url; write it as https://host/path")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("base url has a user, query or fragment; set the key in its own setting and only the address here")
	}
	return nil
}

// CheckKey refuses a key that no HTTP header can carry. The text of the error does not show it.
func CheckKey(key string) error {
	for _, c := range []byte(key) {
		if c <= ' ' || c > '~' {
			return errors.New("key has white space, control or non-ASCII characters; copy it again")
		}
	}
	return nil
}

// Broken is the error for a request that got no answer, or half of one. The end of ctx wins: it is what cut the line.
func (p Provider) Broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, tooMuch := range []error{ErrTooMuch, ErrEventTooLarge} {
		if errors.Is(err, tooMuch) {
			return &llm.Error{Class: llm.Invalid, Err: fmt.Errorf("%s: %w", p.Name, tooMuch),
				Hint: "request fewer output tokens"}
		}
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // its text would show the whole address
	}
	if p.Key != "" && strings.Contains(err.Error(), p.Key) {
		err = errors.New(p.clean(err.Error()))
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: %w", ErrCut, err)
	}
	return &llm.Error{Class: llm.Transient, Err: fmt.Errorf("%s: %w", p.Name, err)}
}

// Unsent is the error for a request that cannot be made.
func (p Provider) Unsent(err error) error {
	return &llm.Error{Class: llm.Invalid, Err: fmt.Errorf("%s: make the request: %w", p.Name, err),
		Hint: "the conversation or the schema of a tool is malformed; start the step again"}
}
