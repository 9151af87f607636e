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
	if wait := retryAfter(res.Header, time.Now()); wait > 0 {
		r.retryAfter = wait
	}
	return p.refused(r)
}

// StreamError is the error for an error event inside a stream that had begun well.
func (p Provider) StreamError(data []byte) error {
	r := readRefusal(data)
	if s, ok := statusOf[r.kind]; ok {
		r.status = s
	} else if s, ok := statusOf[r.code]; ok {
		r.status = s
	} else if s, ok := statusOf[r.reason]; ok {
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
	// reason is Google's word for an error, of its ErrorInfo.
	reason     string
	retryAfter time.Duration
}

// readRefusal understands {"error": {"type", "code", "message"}}, Google's {"error": {"code", "status", "message",
// "details"}}, {"error": "text"}, the inner object alone, each also as the only element of an array, and text.
func readRefusal(body []byte) refusal {
	var outer struct {
		Error json.RawMessage `json:"error"`
	}
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) == 1 {
		body = list[0]
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
		Status  any `json:"status"`
		Details any `json:"details"`
	}
	d := json.NewDecoder(bytes.NewReader(inner))
	d.UseNumber()
	if d.Decode(&e) != nil {
		return refusal{message: string(body)}
	}
	r := refusal{kind: word(e.Type), code: word(e.Code), message: word(e.Message)}
	if r.kind == "" {
		r.kind = word(e.Status)
	}
	r.readDetails(e.Details)
	return r
}

// readDetails takes the wait out of a google.rpc.RetryInfo and the reason out of a google.rpc.ErrorInfo.
func (r *refusal) readDetails(details any) {
	list, _ := details.([]any)
	for _, d := range list {
		o, _ := d.(map[string]any)
		if reason := word(o["reason"]); reason != "" {
			r.reason = reason
		}
		if s, err := strconv.ParseFloat(strings.TrimSuffix(word(o["retryDelay"]), "s"), 64); err == nil {
			r.retryAfter = bounded(s * float64(time.Second))
		}
	}
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
	"server_is_overloaded":  http.StatusServiceUnavailable,
	"invalid_prompt":        http.StatusBadRequest,

	"context_length_exceeded": http.StatusBadRequest,

	"INVALID_ARGUMENT":    http.StatusBadRequest,
	"FAILED_PRECONDITION": http.StatusBadRequest,
	"UNAUTHENTICATED":     http.StatusUnauthorized,
	"PERMISSION_DENIED":   http.StatusForbidden,
	"NOT_FOUND":           http.StatusNotFound,
	"RESOURCE_EXHAUSTED":  http.StatusTooManyRequests,
	"INTERNAL":            http.StatusInternalServerError,
	"UNAVAILABLE":         http.StatusServiceUnavailable,
	"DEADLINE_EXCEEDED":   http.StatusGatewayTimeout,
}

// tooLong are the words of the servers that have no code for a prompt above the context window: Anthropic, vLLM,
// llama.cpp, Gemini. There is nothing else to tell it by.
var tooLong = []string{
	"prompt is too long", "exceed context limit", "maximum context length", "context_length_exceeded",
	"exceed_context_size_error", "exceeds the available context size",
	"exceeds the maximum number of tokens", "exceeds the context window",
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

// noCredit reports that only money helps. Gemini has no code for it, only a status that it shares with the limits of a
// rate, so that its words decide.
func (r refusal) noCredit() bool {
	return r.code == "insufficient_quota" || r.kind == "insufficient_quota" || r.status == http.StatusPaymentRequired ||
		r.reason == "BILLING_DISABLED" || r.kind == "RESOURCE_EXHAUSTED" && strings.Contains(r.message,
		"credits are depleted")
}

// badKey reports a key that is refused. Gemini answers 400 then.
func (r refusal) badKey() bool {
	return r.status == http.StatusUnauthorized || r.status == http.StatusForbidden || strings.HasPrefix(r.reason,
		"API_KEY_")
}

func (p Provider) refused(r refusal) *llm.Error {
	e := &llm.Error{Status: r.status, RetryAfter: r.retryAfter, Err: p.describe(r)}
	switch {
	case r.isTooLong():
		e.Class, e.Hint = llm.TooLong, "shorten the conversation or choose a model with a larger context window"
	case r.noCredit():
		e.Class, e.Hint = llm.Auth, "the account has no credit left; check the billing page of the provider"
	case r.badKey():
		e.Class, e.Hint = llm.Auth, "check the key in "+p.KeyEnv+", or set with inspan login, and its permissions"
	case r.status == http.StatusNotFound:
		e.Class, e.Hint = llm.Invalid, "check the model name and the base url"
	case r.status == http.StatusTooManyRequests:
		e.Class = llm.RateLimit
	case r.status == 0, r.status >= 500, r.status == http.StatusRequestTimeout, r.status == http.StatusConflict,
		r.status == http.StatusTooEarly:
		e.Class = llm.Transient
	case r.status < 400:
		e.Class, e.Hint = llm.Invalid, "the server redirects; set the final address as base url"
	default:
		e.Class, e.Hint = llm.Invalid, "the same request will be refused again; see the message of the provider"
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
