package policy

import "fmt"

// Code names why something was refused; it is stable, for counters and events.
type Code string

// The codes.
const (
	// BadHost means that the host or port is not written as one.
	BadHost Code = "bad_host"
	// NotAllowed means that no entry of the list fits.
	NotAllowed Code = "not_allowed"
	// NotPublic means that a name leads to addresses that are not public.
	NotPublic Code = "not_public"
	// NoAddress means that the name could not be resolved.
	NoAddress Code = "no_address"
	// Differs means that the name in the traffic is not the one that was asked for.
	Differs Code = "differs"
	// Hidden means that the name in the traffic cannot be seen.
	Hidden Code = "hidden"
	// Limit means that a limit of connections, bytes or time is used up.
	Limit Code = "limit"
	// Revoked means that the call has ended, or another attempt of it has started.
	Revoked Code = "revoked"
	// Unreachable means that it was allowed and did not answer.
	Unreachable Code = "unreachable"
	// BadRequest means that the request itself is not one that is passed on.
	BadRequest Code = "bad_request"
)

// Refusal is why something cannot be reached.
type Refusal struct {
	Code Code
	// Target as it was asked for, shortened and quoted where it is no plain host.
	Target string
	// Reason and Hint are English, without secrets; Hint says what to do next and may be empty.
	Reason, Hint string
}

func (r *Refusal) Error() string {
	if r.Hint == "" {
		return fmt.Sprintf("%s: %s", r.Target, r.Reason)
	}
	return fmt.Sprintf("%s: %s; %s", r.Target, r.Reason, r.Hint)
}

// maxShown is the most bytes of a target that is quoted in a refusal.
const maxShown = 300

func refuse(code Code, target, reason, hint string) *Refusal {
	if len(target) > maxShown {
		target = target[:maxShown]
	}
	if _, err := parseName(target); err != nil {
		target = fmt.Sprintf("%q", target)
	}
	return &Refusal{Code: code, Target: target, Reason: reason, Hint: hint}
}

// Refuse makes a refusal for a target.
func Refuse(code Code, t Target, reason, hint string) *Refusal {
	return &Refusal{Code: code, Target: t.String(), Reason: reason, Hint: hint}
}
