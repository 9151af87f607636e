package agentfile

import (
	"math"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// acceptShape says what decides that a step of the agent is done: a command, or a mapping with checks.
func acceptShape() shape {
	check := mapping(map[string]field{
		"kind":      acts(textUpTo(events.MaxCheckName)),
		"name":      acts(textUpTo(events.MaxCheckName)),
		"run":       acts(textUpTo(events.MaxCheckCommand)),
		"expect":    acts(list(textUpTo(events.MaxCheckPath), events.MaxExpect)),
		"from":      acts(oneOf(events.FromBase, events.FromClaim)),
		"timeout":   acts(duration(time.Second, events.MaxCheckTime)),
		"path":      acts(textUpTo(events.MaxCheckPath)),
		"type":      acts(oneOf(events.CheckedFile, events.CheckedDir)),
		"min_bytes": acts(whole(0, math.MaxInt32)),
		"require":   acts(list(oneOf(events.RequireCommit, events.RequireClean, events.RequireAhead), 3)),
		"schema":    acts(anything()),
		"of":        acts(oneOf(events.OfOutput)),
		"approvers": acts(list(textUpTo(events.MaxCheckPath), events.MaxApprovers)),
		"votes":     acts(whole(1, events.MaxApprovers)),
		"expires":   acts(duration(time.Second, events.MaxCheckExpires)),
		"agent":     acts(textUpTo(events.MaxCheckName)),
		"rubric":    acts(textUpTo(events.MaxRubric)),
		"expr":      acts(textUpTo(events.MaxCheckExpr)),
	})
	return shape{kinds: []kind{isText, isMap}, most: events.MaxCheckCommand, fields: map[string]field{
		"max_attempts": acts(whole(1, events.MaxClaims)),
		"checks":       acts(list(check, events.MaxChecks)),
		"protect":      acts(list(textUpTo(events.MaxCheckPath), events.MaxProtect)),
	}}
}

// acceptOf reads it; nil where the file has none. Checks that cannot be carried out are errors of the file.
func acceptOf(p *parsing, n *node) *events.Accept {
	if n == nil {
		return nil
	}
	a := &events.Accept{MaxAttempts: n.get("max_attempts").whole(), Protect: n.get("protect").words()}
	if n.kind == isText {
		a.Checks = []events.Check{{Kind: events.CheckCommand, Run: n.text}}
	}
	if list := n.child("checks"); list != nil && list.kind == isList {
		for _, c := range list.items {
			a.Checks = append(a.Checks, events.Check{Kind: events.CheckKind(c.child("kind").str()), Name: c.child("name").str(),
				Run: c.child("run").str(), Expect: c.child("expect").words(), From: c.child("from").str(),
				Timeout: c.child("timeout").str(), Path: c.child("path").str(), Type: c.child("type").str(),
				MinBytes: int64(c.child("min_bytes").whole()), Require: c.child("require").words(),
				Schema: p.document(c.child("schema")),
				Of:     c.child("of").str(), Approvers: c.child("approvers").words(), Votes: c.child("votes").whole(),
				Expires: c.child("expires").str(), Agent: c.child("agent").str(), Rubric: c.child("rubric").str(),
				Expr: c.child("expr").str()})
		}
	}
	if fault := a.Fault(); fault != "" && len(p.errs) == 0 {
		p.failAt(n, Error{Code: CodeValue, Message: fault, Hint: `accept: "go test ./..." is the shortest form`})
	}
	return a
}
