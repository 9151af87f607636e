// Package webhook reads the files of webhooks, tells calls of their senders from forged ones, and makes a task of a
// payload.
//
// Promises: a call counts only with a signature, or of GitLab the secret, that fits, compared in constant time. The id
// of a run is made of what the signature covers and of nothing else, so a call that comes again is the same run for
// ever. A value of a payload takes the place of its name in a template and is read no further.
package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/payload"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/events"
)

// Kind is how a sender proves that a call is its own.
type Kind string

// The kinds of webhooks.
const (
	// Standard is that of Standard Webhooks: an id and a time are signed with the body.
	Standard Kind = "standard-webhooks"
	GitHub   Kind = "github"
	// GitLab sends the secret itself, in a header.
	GitLab Kind = "gitlab"
	// HMAC is a SHA-256 HMAC of the body in a header of any name.
	HMAC Kind = "hmac"
)

// Kinds are all there are.
func Kinds() []Kind { return []Kind{Standard, GitHub, GitLab, HMAC} }

const (
	// Tolerance is how far the signed time of a call may be from now.
	Tolerance = 5 * time.Minute
	// maxID is the most bytes of the id of a call.
	maxID = 256
	// All is the event that lists any.
	All = "*"
)

// ErrForged means that a call is not its sender's, or too old. It says no more.
var ErrForged = errors.New("the call is not signed by its sender")

// Hook is a webhook.
type Hook struct {
	// Name is that of its file, and the last part of its path.
	Name string
	Kind Kind
	// Events that start a run; All is any.
	Events []string
	Agent  string
	// Autonomy of its runs; 0 leaves it to the agent.
	Autonomy int

	secret []byte
	// header, prefix and base64 say where the signature of HMAC is.
	header, prefix string
	base64         bool
	// event is the place of the name of the event in a payload.
	event payload.Place
	task  payload.Task
}

// Unknown is a webhook of which no call is. It is asked where there is no other, so that a caller does not learn from
// the time it takes which webhooks there are.
func Unknown() *Hook {
	key := make([]byte, secretBytes)
	_, _ = rand.Read(key) // it ends the process rather than to fail
	return &Hook{Kind: GitHub, secret: key}
}

// Verify checks that a call is its sender's, and returns what identifies it: the part of what was signed that is the
// same when the call is sent again.
func (h *Hook) Verify(header http.Header, body []byte, now time.Time) (identity string, err error) {
	switch h.Kind {
	case Standard:
		return h.standard(header, body, now)
	case GitLab:
		if !same([]byte(header.Get("X-Gitlab-Token")), h.secret) {
			return "", ErrForged
		}
	case GitHub:
		if !h.signed(strings.CutPrefix(header.Get("X-Hub-Signature-256"), "sha256=")).fits(body, hex.DecodeString) {
			return "", ErrForged
		}
	case HMAC:
		decode := hex.DecodeString
		if h.base64 {
			decode = base64.StdEncoding.DecodeString
		}
		if !h.signed(strings.CutPrefix(header.Get(h.header), h.prefix)).fits(body, decode) {
			return "", ErrForged
		}
	}
	return string(body), nil
}

// signature is one that a call has.
type signature struct {
	text string
	key  []byte
}

func (h *Hook) signed(text string, ok bool) signature {
	if !ok {
		text = ""
	}
	return signature{text, h.secret}
}

func (s signature) fits(signed []byte, decode func(string) ([]byte, error)) bool {
	got, err := decode(s.text)
	return err == nil && hmac.Equal(got, sum(s.key, signed))
}

func sum(key []byte, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

// same compares secrets of any lengths in constant time.
func same(a, b []byte) bool {
	x, y := sha256.Sum256(a), sha256.Sum256(b)
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// standard verifies a call of Standard Webhooks. The id is signed and stays what it is when the call is sent again,
// while the time changes; an id with a full stop could be read as another id and time.
func (h *Hook) standard(header http.Header, body []byte, now time.Time) (identity string, err error) {
	id, stamp := header.Get("Webhook-Id"), header.Get("Webhook-Timestamp")
	want := sum(h.secret, []byte(id+"."+stamp+"."), body)
	fits := false
	for one := range strings.FieldsSeq(header.Get("Webhook-Signature")) {
		text, ok := strings.CutPrefix(one, "v1,")
		got, err := base64.StdEncoding.DecodeString(text)
		if ok && err == nil && hmac.Equal(got, want) {
			fits = true
		}
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if !fits || err != nil || id == "" || len(id) > maxID || strings.Contains(id, ".") {
		return "", ErrForged
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > Tolerance || age < -Tolerance {
		return "", ErrForged
	}
	return id, nil
}

// lowerText is base32 in small letters, which ids may have.
var lowerText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// idText is how many letters of a hash an id has: 130 bits.
const idText = 26

// RunID is the id of the run of a call that was verified.
func (h *Hook) RunID(identity string) string {
	return "hook-" + h.Name + "-" + idOf("inspan webhook 1", h.Name, identity)
}

// idOf makes an id of texts. Their lengths are hashed with them, so no two lists are the same.
func idOf(texts ...string) string {
	m := sha256.New()
	for _, t := range texts {
		writeSized(m, t)
	}
	return lowerText.EncodeToString(m.Sum(nil))[:idText]
}

func writeSized(m hash.Hash, text string) {
	fmt.Fprintf(m, "%d:%s", len(text), text)
}

// Event is the name of what happened. GitHub says the first half of it in a header that it does not sign: it decides
// only whether the call is listed.
func (h *Hook) Event(header http.Header, p payload.Payload) string {
	at := func(path string) string {
		text, _ := payload.Place(strings.Split(path, ".")).Text(p)
		return text
	}
	switch h.Kind {
	case GitHub:
		return joined(header.Get("X-Github-Event"), at("action"))
	case GitLab:
		return joined(at("object_kind"), at("object_attributes.action"))
	case Standard, HMAC:
	}
	text, _ := h.event.Text(p)
	return text
}

func joined(family, action string) string {
	if action == "" {
		return family
	}
	return family + "." + action
}

// Fires reports whether an event starts a run.
func (h *Hook) Fires(event string) bool {
	return slices.Contains(h.Events, All) || event != "" && slices.Contains(h.Events, event)
}

// Task makes the task of a payload. The error says what the payload lacks.
func (h *Hook) Task(p payload.Payload, runID string) (events.Task, error) {
	t := events.Task{ID: runID, Agent: h.Agent, By: "webhook " + h.Name}
	err := h.task.Fill(p, &t)
	if h.Autonomy != 0 {
		t.Autonomy = &h.Autonomy
	}
	return t, err
}

// Secret is the key that calls are signed with, so that it is masked.
func (h *Hook) Secret() secret.Value { return secret.New(string(h.secret)) }
