package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Limits of checks of the kinds schema and person.
const (
	// MaxCheckSchema bounds the schema of a check, and MaxCheckSchemas all of those of a task or an agent, in bytes.
	MaxCheckSchema  = 8 << 10
	MaxCheckSchemas = 16 << 10
	// maxSchemaDepth bounds how deep a schema is, maxSchemaNumber the characters of a number in it.
	maxSchemaDepth  = 32
	maxSchemaNumber = 32
	// MaxCheckExpires bounds how long a person is waited for.
	MaxCheckExpires = 30 * 24 * time.Hour
)

// OfOutput is the output of a step, which a CheckSchema judges.
const OfOutput = "output"

// ScopeCheck is the scope of a gate at which a person decides a CheckPerson.
const ScopeCheck = "check"

// checkPlace is how the place of a check begins, where a gate has that of a call.
const checkPlace = "check-"

// CheckPlace is the place of a check of a claim, as its gate and the answers to that have it.
func CheckPlace(claim, check int) string { return fmt.Sprintf("%s%d-%d", checkPlace, claim, check) }

// IsCheckPlace reports whether a gate with this for its call is one of a check.
func IsCheckPlace(call string) bool { return strings.HasPrefix(call, checkPlace) }

// Wait is how long a person has for a CheckPerson, 0 for no limit of its own.
func (c Check) Wait() time.Duration {
	d, err := time.ParseDuration(c.Expires)
	if err != nil || d <= 0 {
		return 0
	}
	return min(d, MaxCheckExpires)
}

// Vouches reports whether a check of the kind can verify a run. One that only judges what the agent says of itself, or
// that it left something, cannot.
func (k CheckKind) Vouches() bool {
	return k == CheckCommand || k == CheckGit || k == CheckPerson || k == CheckReview
}

// whole adds the check by which the files are known that a person or a reviewer decides about, where no check before
// does that.
func (a *Accept) whole() *Accept {
	if a == nil || len(a.Checks) == 0 || a.Checks[0].Kind != CheckPerson && a.Checks[0].Kind != CheckReview {
		return a
	}
	all := *a
	all.Checks = append([]Check{{Kind: CheckFiles}}, a.Checks...)
	return &all
}

// Deciding returns the checks that decide where both are given, as Also does, with what the harness checks before them.
func (a *Accept) Deciding(b *Accept) *Accept { return a.Also(b).whole() }

func (c Check) personFault() string {
	d, err := time.ParseDuration(c.Expires)
	switch {
	case c.Expires != "" && (err != nil || d < time.Second || d > MaxCheckExpires):
		return fmt.Sprintf("expires %q is no duration of 1s to %s", shorten(c.Expires), MaxCheckExpires)
	case len(c.Approvers) > MaxApprovers:
		return fmt.Sprintf("approvers has %d names, the limit is %d", len(c.Approvers), MaxApprovers)
	case c.Votes < 0 || c.Votes > MaxApprovers || len(c.Approvers) > 0 && c.Votes > len(c.Approvers):
		return fmt.Sprintf("votes is %d, want 1 to %d, and no more than there are approvers", c.Votes, MaxApprovers)
	}
	for _, name := range c.Approvers {
		if !ValidID(name) {
			return fmt.Sprintf("approvers has %q, which is no name: letters, digits, _ and -", shorten(name))
		}
	}
	return ""
}

func (c Check) schemaFault() string {
	switch {
	case c.Of != "" && c.Of != OfOutput:
		return fmt.Sprintf("of %q is not known, want %s", shorten(c.Of), OfOutput)
	case len(c.Schema) == 0 || len(c.Schema) > MaxCheckSchema:
		return fmt.Sprintf("schema has %d bytes, want a JSON Schema of at most %d", len(c.Schema), MaxCheckSchema)
	}
	d := json.NewDecoder(bytes.NewReader(c.Schema))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		return "schema is not JSON: " + shorten(err.Error())
	}
	top, ok := doc.(map[string]any)
	if _, typed := top["type"]; !ok || !typed {
		return `schema has no type: want a JSON Schema such as {"type":"object","required":["verdict"]}`
	}
	return partFault(doc, 0)
}

// partFault returns why a schema could be too much to judge by, or refers to something, or "". Without references, the
// work is bounded by the size of the schema and the document.
func partFault(part any, depth int) string {
	if depth > maxSchemaDepth {
		return fmt.Sprintf("schema is deeper than %d levels", maxSchemaDepth)
	}
	switch v := part.(type) {
	case map[string]any:
		for key, below := range v {
			switch key {
			case "$ref", "$dynamicRef", "$recursiveRef", "$schema", "$id", "id":
				if _, text := below.(string); text {
					return fmt.Sprintf("schema has %s: references are not followed, write out what they name", key)
				}
			}
			if fault := partFault(below, depth+1); fault != "" {
				return fault
			}
		}
	case []any:
		for _, below := range v {
			if fault := partFault(below, depth+1); fault != "" {
				return fault
			}
		}
	case json.Number:
		if e := strings.IndexAny(v.String(), "eE"); len(v) > maxSchemaNumber || e >= 0 && len(v)-e > 4 {
			return fmt.Sprintf("schema has the number %s, which is too large or too long", shorten(v.String()))
		}
	}
	return ""
}
