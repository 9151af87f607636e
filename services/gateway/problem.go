package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Problem is what went wrong, in the form of RFC 9457.
type Problem struct {
	// Type is urn:inspan:problem: and the code.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Code is stable for programs; Hint says what to do next.
	Code string `json:"code"`
	Hint string `json:"hint,omitempty"`
	// Run that the request was about, where that exists.
	Run string `json:"run_id,omitempty"`

	// after is how long to wait before the request is sent again; 0 is not known.
	after time.Duration
}

func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// problemType begins the types of problems.
const problemType = "urn:inspan:problem:"

// refuse answers with a problem.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, route string, err error) {
	p := g.problem(route, err)
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if p.after > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.after.Seconds()))))
	}
	if r.ContentLength != 0 {
		h.Set("Connection", "close") // what is left of the body is not waited for
	}
	if strings.HasPrefix(r.URL.Path, chatPaths) {
		h.Set("Content-Type", "application/json")
		w.WriteHeader(p.Status)
		_ = json.NewEncoder(w).Encode(chatError(p)) // the client may be gone
		return
	}
	p.Type, p.Title = problemType+p.Code, http.StatusText(p.Status)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client may be gone
}

// later is how long a caller is asked to wait where nothing better is known.
const later = 5 * time.Second

// problem is an error as the caller gets it. What is wrong inside of the station is reported to its operator.
func (g *Gateway) problem(route string, err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if r, ok := errors.AsType[*client.RefusedError](err); ok {
		return refused(r)
	}
	if n, ok := errors.AsType[*client.NotFoundError](err); ok {
		return &Problem{Status: http.StatusNotFound, Code: "not_found", Detail: n.Error()}
	}
	if id, ok := errors.AsType[*events.IDError](err); ok {
		return bad(id.Error(), "")
	}
	if s, ok := errors.AsType[*client.SilentError](err); ok {
		return &Problem{Status: http.StatusGatewayTimeout, Code: "no_answer", Run: s.Run, after: later,
			Detail: "the message is stored, and the station has not answered yet",
			Hint:   "look at the run again later; the station takes the message up when its services run"}
	}
	if big, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &Problem{Status: http.StatusRequestEntityTooLarge, Code: "too_large",
			Detail: "the body is larger than " + strconv.FormatInt(big.Limit, 10) + " bytes"}
	}
	if e, ok := errors.AsType[*client.ElsewhereError](err); ok {
		return &Problem{Status: http.StatusConflict, Code: "elsewhere", Detail: e.Error()}
	}
	switch {
	case errors.Is(err, client.ErrExpired):
		return &Problem{Status: http.StatusGone, Code: "expired", Detail: err.Error()}
	case errors.Is(err, client.ErrInputFull):
		return &Problem{Status: http.StatusServiceUnavailable, Code: "input_full", after: later,
			Detail: "the station takes nothing more until its services have worked off what waits", Hint: "send it again later"}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &Problem{Status: http.StatusGatewayTimeout, Code: "timeout", Detail: "the station has not answered in time",
			Hint: "send the request again", after: later}
	}
	g.cfg.Failed(route, err)
	return &Problem{Status: http.StatusInternalServerError, Code: "internal", Hint: "the log of the gateway says more"}
}

// refused is what the station answered to input that it refused.
func refused(r *client.RefusedError) *Problem {
	p := &Problem{Status: http.StatusUnprocessableEntity, Code: r.Code, Detail: r.Reason, Hint: r.Hint}
	switch r.Code {
	case "bad_input":
		p.Status = http.StatusBadRequest
	case "unknown_run", "unknown_gate":
		p.Status = http.StatusNotFound
	case "quota_exceeded":
		p.Status, p.after = http.StatusTooManyRequests, later
	case "gate_closed", "bad_move", "session_locked", "stale_answer", "run_ended":
		p.Status = http.StatusConflict
	case "unproven_answer", "unsigned_answer", "not_approver", "own_request":
		p.Status = http.StatusForbidden
	case "station_damaged":
		p.Status = http.StatusServiceUnavailable
	}
	return p
}

// bad is a request that is not as it must be.
func bad(detail, hint string) *Problem {
	return &Problem{Status: http.StatusBadRequest, Code: "bad_request", Detail: detail, Hint: hint}
}
