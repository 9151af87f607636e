package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Limits of checks of the kinds review and expr.
const (
	// MaxRubric bounds what a reviewer goes by, in bytes.
	MaxRubric = 8 << 10
	// MaxCheckExpr bounds an expression, in bytes.
	MaxCheckExpr = 4 << 10
	// MaxReasons bounds how many reasons a verdict may give.
	MaxReasons = 32
)

// ChildReview is the workspace of a reviewer: a copy of the files that it reviews, which no one else works in.
const ChildReview = "review"

// The verdicts of a reviewer.
const (
	VerdictPass = "pass"
	VerdictFail = "fail"
)

// ReviewOf is what a reviewer reviews: its workspace becomes a copy of the files of the claim.
type ReviewOf struct {
	Run  string `json:"run_id"`
	Step string `json:"step_id"`
	// Workspace is the directory whose files are copied, and Tree their digest when they were claimed.
	Workspace string `json:"workspace"`
	Tree      string `json:"tree"`
}

// VerdictSchema is the JSON Schema of what a reviewer answers.
const VerdictSchema = `{"type":"object","properties":{"verdict":{"type":"string","enum":["pass","fail"]},` +
	`"reasons":{"type":"array","items":{"type":"string"},"maxItems":32}},"required":["verdict","reasons"],"additionalProperties":false}`

// Verdict is what a reviewer answers.
type Verdict struct {
	Verdict string   `json:"verdict"`
	Reasons []string `json:"reasons"`
}

// Text is the reasons in words.
func (v Verdict) Text() string { return strings.Join(v.Reasons, "; ") }

// ReadVerdict reads the answer of a reviewer. What is not exactly a verdict is an error: nothing in it is guessed.
func ReadVerdict(text string) (v Verdict, err error) {
	if err = readVerdict(text, &v); err != nil {
		return Verdict{}, fmt.Errorf("the reviewer gave no verdict: %w", err)
	}
	return v, nil
}

func readVerdict(text string, v *Verdict) error {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("%q is no JSON object", shorten(text))
	}
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		name, ok := key.(string)
		if err != nil || !ok || seen[name] {
			return fmt.Errorf("the key %v is there twice, or broken", key)
		}
		seen[name] = true
		switch name {
		case "verdict":
			err = d.Decode(&v.Verdict)
		case "reasons":
			err = d.Decode(&v.Reasons)
		default:
			err = fmt.Errorf("the key %q is unknown", shorten(name))
		}
		if err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind the object")
	}
	switch {
	case v.Verdict != VerdictPass && v.Verdict != VerdictFail:
		return fmt.Errorf("verdict is %q, want %s or %s", shorten(v.Verdict), VerdictPass, VerdictFail)
	case !seen["reasons"] || len(v.Reasons) > MaxReasons:
		return fmt.Errorf("there are %d reasons, want a list of at most %d", len(v.Reasons), MaxReasons)
	case v.Verdict == VerdictFail && strings.TrimSpace(v.Text()) == "":
		return errors.New("it fails the work without a reason")
	}
	return nil
}

func (c Check) reviewFault() string {
	switch {
	case !ValidID(c.Agent):
		return fmt.Sprintf("agent is %q, want the name of the agent that reviews", shorten(c.Agent))
	case strings.TrimSpace(c.Rubric) == "" || len(c.Rubric) > MaxRubric || !utf8.ValidString(c.Rubric) ||
		strings.ContainsRune(c.Rubric, 0):
		return fmt.Sprintf("rubric is empty, no text or has more than %d bytes: say what the reviewer goes by", MaxRubric)
	}
	return ""
}

func (c Check) exprFault() string {
	if strings.TrimSpace(c.Expr) == "" || len(c.Expr) > MaxCheckExpr || !utf8.ValidString(c.Expr) ||
		strings.ContainsRune(c.Expr, 0) {
		return fmt.Sprintf("expr is empty, no text or has more than %d bytes: want an expression such as len(output) > 0",
			MaxCheckExpr)
	}
	return ""
}
