package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/inspan/inspan/internal/llm"
)

// Limits of what is taken from a refusal.
const (
	maxRefusalBytes = 64 << 10
	maxMessageChars = 500
	maxRetryAfter   = 24 * time.Hour
)

// statusOverloaded is Anthropic's own.
const statusOverloaded = 529

// Check returns the error of an answer that is no event stream, or nil. It reads the body only where it fails.
func (p Provider) Check(res *http.Response) error {
	if res.StatusCode == http.StatusOK {
		kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
		if kind == "text/event-stream" {
			return nil
		}
		return &llm.Error{Class: llm.Invalid, Status: res.StatusCode,
			Err:  fmt.Errorf("%s: the server did not answer with an event stream", p.Name),
			Hint: "check the base url; the server there must stream"}
	}
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusalBytes)) // half a refusal still has its status
	r := readRefusal(body)
	r.status = res.StatusCode
	r.retryAfter = retryAfter(res.Header, time.Now())
	return p.refused(r)
}

// StreamError is the error for an error event inside a stream that had begun well.
func (p Provider) StreamError(data []byte) error {
	r := readRefusal(data)
	if s, ok := statusOf[r.kind]; ok {
		r.status = s
	} else if s, ok := statusOf[r.code]; ok {
		r.status = s
	} else if n, err := strconv.Atoi(r.code); err == nil && n >= 400 && n < 600 {
		r.status = n
	}
	err := p.refused(r)
	err.Status = 0 // the answer itself was 200
	return err
}

// refusal is what a provider said about a request that it did not answer.
type refusal struct {
	status              int
	kind, code, message string
	retryAfter          time.Duration
}

// readRefusal understands {"error": {"type", "code", "message"}}, {"error": "text"}, the inner object alone, and text.
func readRefusal(body []byte) refusal {
	var outer struct {
		Error json.RawMessage `json:"error"`
	}
	inner := json.RawMessage(body)
	if json.Unmarshal(body, &outer) == nil && len(outer.Error) > 0 {
		inner = outer.Error
	}
	var text string
	if json.Unmarshal(inner, &text) == nil {
		return refusal{message: text}
	}
	var e struct {
		Type    any `json:"type"`
		Code    any `json:"code"`
		Message any `json:"message"`
	}
	d := json.NewDecoder(bytes.NewReader(inner))
	d.UseNumber()
	if d.Decode(&e) != nil {
		return refusal{message: string(body)}
	}
	return refusal{kind: word(e.Type), code: word(e.Code), message: word(e.Message)}
}

func word(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// statusOf gives the HTTP status that a type or code inside a stream would have had outside of it.
var statusOf = map[string]int{
	"invalid_request_error": http.StatusBadRequest,
	"authentication_error":  http.StatusUnauthorized,
	"invalid_api_key":       http.StatusUnauthorized,
	"billing_error":         http.StatusPaymentRequired,
	"permission_error":      http.StatusForbidden,
	"not_found_error":       http.StatusNotFound,
	"model_not_found":       http.StatusNotFound,
	"request_too_large":     http.StatusRequestEntityTooLarge,
	"rate_limit_error":      http.StatusTooManyRequests,
	"rate_limit_exceeded":   http.StatusTooManyRequests,
	"api_error":             http.StatusInternalServerError,
	"server_error":          http.StatusInternalServerError,
	"timeout_error":         http.StatusGatewayTimeout,
	"overloaded_error":      statusOverloaded,
}

// tooLong are the words of the servers that have no code for a prompt above the context window: Anthropic, vLLM,
// llama.cpp. There is nothing else to tell it by.
var tooLong = []string{
	"prompt is too long", "exceed context limit", "maximum context length", "context_length_exceeded",
	"exceed_context_size_error", "exceeds the available context size",
}

func (r refusal) isTooLong() bool {
	if r.status == http.StatusRequestEntityTooLarge {
		return true
	}
	if r.status != 0 && r.status != http.StatusBadRequest && r.status != http.StatusUnprocessableEntity {
		return r.code == "context_length_exceeded"
	}
	said := strings.ToLower(r.kind + " " + r.code + " " + r.message)
	for _, words := range tooLong {
		if strings.Contains(said, words) {
			return true
		}
	}
	return false
}

func (p Provider) refused(r refusal) *llm.Error {
	e := &llm.Error{Status: r.status, RetryAfter: r.retryAfter, Err: p.describe(r)}
	switch {
	case r.isTooLong():
		e.Class, e.Hint = llm.TooLong, "shorten the conversation or choose a model with a larger context window"
	case r.code == "insufficient_quota" || r.kind == "insufficient_quota" || r.status == http.StatusPaymentRequired:
		e.Class, e.Hint = llm.Auth, "the account has no credit left; look at the provider's billing page"
	case r.status == http.StatusUnauthorized || r.status == http.StatusForbidden:
		e.Class, e.Hint = llm.Auth, "check "+p.KeyEnv+" and what the key may use"
	case r.status == http.StatusNotFound:
		e.Class, e.Hint = llm.Invalid, "check the model name and the base url"
	case r.status == http.StatusTooManyRequests:
		e.Class = llm.RateLimit
	case r.status == 0, r.status >= 500, r.status == http.StatusRequestTimeout, r.status == http.StatusConflict,
		r.status == http.StatusTooEarly:
		e.Class = llm.Transient
	case r.status < 400:
		e.Class, e.Hint = llm.Invalid, "the server points elsewhere; give the final address as base url"
	default:
		e.Class, e.Hint = llm.Invalid, "the same request will be refused again; see what the provider says about it"
	}
	return e
}

func (p Provider) describe(r refusal) error {
	var parts []string
	for _, s := range []string{r.kind, r.code, r.message} {
		if s = p.clean(s); s != "" {
			parts = append(parts, s)
		}
	}
	if len(parts) == 0 {
		parts = []string{"no reason given"}
	}
	return errors.New(p.Name + ": " + strings.Join(parts, ": "))
}

// clean takes the key and control characters out of a stranger's text and shortens it.
func (p Provider) clean(s string) string {
	if p.Key != "" {
		s = strings.ReplaceAll(s, p.Key, "***")
	}
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, s)
	n := 0
	for at := range s {
		if n++; n > maxMessageChars {
			return s[:at] + "..."
		}
	}
	return strings.TrimSpace(s)
}

// retryAfter reads retry-after-ms, and Retry-After as seconds or as a date (RFC 9110, 10.2.3). Nonsense is no wait, and
// no wait is longer than a day.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return bounded(ms * float64(time.Millisecond))
	}
	value := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		return bounded(s * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil {
		return bounded(float64(at.Sub(now)))
	}
	return 0
}

func bounded(d float64) time.Duration {
	if !(d > 0) { // also not a number
		return 0
	}
	return time.Duration(min(d, float64(maxRetryAfter)))
}
