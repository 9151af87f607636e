package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/patch"
	"github.com/inspan/inspan/pkg/tool"
)

const editSchema = `{"type":"object","additionalProperties":false,"required":["path"],"properties":{
"path":{"type":"string","minLength":1,"maxLength":4096,"description":"file, relative to the workspace"},
"old_string":{"type":"string","minLength":1,"description":"text to replace, exactly as in the file"},
"new_string":{"type":"string","description":"replacement text"},
"replace_all":{"type":"boolean","description":"replace every occurrence; if false, old_string must occur exactly once"},
"edits":{"type":"array","minItems":1,"maxItems":100,"description":"several replacements instead of one, applied in this order, all or none",
"items":{"type":"object","additionalProperties":false,"required":["old_string","new_string"],"properties":{
"old_string":{"type":"string","minLength":1},"new_string":{"type":"string"},"replace_all":{"type":"boolean"}}}}}}`

// Limits of what edit shows.
const (
	// maxDiff is the most bytes of the diff that edit answers with.
	maxDiff = 4 << 10
	// maxDiffed is the largest file that is compared for it.
	maxDiffed = 4 << 20
	// maxPlaces is the most line numbers that edit names.
	maxPlaces = 10
	// maxEdited is the most bytes of a file after an edit.
	maxEdited = 64 << 20
)

// replacement is one text for another.
type replacement struct {
	Old        *string `json:"old_string"`
	New        *string `json:"new_string"`
	ReplaceAll bool    `json:"replace_all"`
}

type editArgs struct {
	Path string
	replacement
	Edits []replacement
}

// list is what to replace, in order; why is what is wrong with it, empty if it is valid.
func (a editArgs) list() (list []replacement, why string) {
	single := a.Old != nil || a.New != nil || a.ReplaceAll
	switch {
	case single && len(a.Edits) > 0:
		return nil, "give old_string and new_string, or edits, not both"
	case !single && len(a.Edits) == 0, single && (a.Old == nil || a.New == nil):
		return nil, "old_string and new_string are both needed, or edits"
	case single:
		list = []replacement{a.replacement}
	default:
		list = a.Edits
	}
	for i, r := range list {
		if *r.Old == *r.New {
			return nil, which(i, list) + "old_string and new_string are the same"
		}
	}
	return list, ""
}

// which names one of several edits.
func which(i int, list []replacement) string {
	if len(list) == 1 {
		return ""
	}
	return fmt.Sprintf("edit %d of %d: ", i+1, len(list))
}

type edit struct{ builtin[editArgs] }

var (
	_ tool.Verifier  = edit{}
	_ tool.Previewer = edit{}
)

func editFile(_ context.Context, a editArgs, env tool.Env) (tool.Result, error) {
	list, why := a.list()
	if why != "" {
		return failed("edit: %s", why), nil
	}
	data, err := env.Sandbox.ReadFile(a.Path)
	if err != nil {
		return fileError("edit", a.Path, err)
	}
	before := string(data)
	after, total, why := a.replace(before, list)
	if why != "" {
		return failed("edit: %s", why), nil
	}
	if err := env.Sandbox.WriteFile(a.Path, []byte(after)); err != nil {
		return fileError("edit", a.Path, err)
	}
	return tool.Show(env, fmt.Sprintf("replaced %d occurrence(s) in %s\n%s", total, oneLine(a.Path),
		shortDiff(a.Path, before,
			after))), nil
}

// replace makes the replacements in a text and counts them; why is what is wrong with them, empty if they can be made.
func (a editArgs) replace(before string, list []replacement) (after string, total int, why string) {
	after = before
	for i, r := range list {
		n := strings.Count(after, *r.Old)
		switch {
		case n == 0:
			return "", 0, fmt.Sprintf("%sold_string does not occur in %s; read the file and copy the text exactly, including white space%s", which(i, list), oneLine(a.Path), missing(after, *r.Old, i))
		case n > 1 && !r.ReplaceAll:
			return "", 0, fmt.Sprintf("%sold_string occurs %d times in %s, at the lines %s; include more surrounding text, or set replace_all", which(i, list), n, oneLine(a.Path), places(after, *r.Old))
		case len(after)+n*(len(*r.New)-len(*r.Old)) > maxEdited:
			return "", 0, fmt.Sprintf("%s%s would have more than %d bytes", which(i, list), oneLine(a.Path), maxEdited)
		}
		after, total = strings.ReplaceAll(after, *r.Old, *r.New), total+n
	}
	if after == before {
		return "", 0, "the edits together do not change " + oneLine(a.Path)
	}
	return after, total, ""
}

// Preview implements tool.Previewer.
func (edit) Preview(_ context.Context, input json.RawMessage, see tool.View) (string, error) {
	a, err := decode[editArgs](input)
	if err != nil {
		return "", err
	}
	list, why := a.list()
	if why != "" {
		return "", errors.New(why)
	}
	data, err := see.Read(a.Path)
	if err != nil {
		return "", err
	}
	after, _, why := a.replace(string(data), list)
	if why != "" {
		return "", errors.New("the edit does not fit the file as it is now: " + why)
	}
	return changed{from: a.Path, to: a.Path, before: string(data), after: after}.diff()
}

// missing says more of a text that is not there.
func missing(text, old string, i int) string {
	switch {
	case strings.Contains(text, "\r\n") && strings.Contains(strings.ReplaceAll(text, "\r\n", "\n"), old):
		return `; its lines end with \r\n`
	case i > 0:
		return "; the edits before it are applied first. The file was not changed"
	}
	return ""
}

// places are the line numbers at which a text occurs.
func places(text, old string) string {
	var at []string
	line, n := 1, strings.Count(text, old)
	for len(at) < maxPlaces {
		i := strings.Index(text, old)
		if i < 0 {
			break
		}
		line += strings.Count(text[:i], "\n")
		at = append(at, fmt.Sprint(line))
		line += strings.Count(old, "\n")
		text = text[i+len(old):]
	}
	if n > len(at) {
		return strings.Join(at, ", ") + fmt.Sprintf(" and %d more", n-len(at))
	}
	return strings.Join(at, ", ")
}

// shortDiff shows the change as a unified diff, or its beginning.
func shortDiff(path, before, after string) string {
	if len(before)+len(after) > maxDiffed {
		return "(the file is too large to show a diff)"
	}
	diff := patch.Unified(oneLine(path), before, after)
	if len(diff) <= maxDiff {
		return strings.TrimSuffix(diff, "\n")
	}
	return strings.ToValidUTF8(diff[:maxDiff], "") + fmt.Sprintf("\n(%d bytes more of the diff)", len(diff)-maxDiff)
}

// Verify implements tool.Verifier. It tries the edits on the file as it is, forward and backward: they are done where
// they can be undone and not be made, and not done where they can be made and not be undone. Anything else is
// ambiguous, and is an error.
func (edit) Verify(_ context.Context, c tool.Call) (bool, tool.Result, error) {
	a, err := decode[editArgs](c.Input)
	if err != nil {
		return false, tool.Result{}, err
	}
	list, why := a.list()
	if why != "" {
		return false, tool.Result{}, fmt.Errorf("verify edit of %s: %s", a.Path, why)
	}
	data, err := c.Env.Sandbox.ReadFile(a.Path)
	if err != nil {
		return false, tool.Result{}, fmt.Errorf("verify edit of %s: %w", a.Path, err)
	}
	made, undone := true, true
	forth, back := string(data), string(data)
	for i := range list {
		made = made && try(&forth, *list[i].Old, *list[i].New, list[i].ReplaceAll)
		r := list[len(list)-1-i]
		undone = undone && try(&back, *r.New, *r.Old, r.ReplaceAll)
	}
	switch {
	case undone && !made:
		return true, tool.Result{Output: "replaced in " + oneLine(a.Path) + " (already applied by an earlier attempt)"}, nil
	case made && !undone:
		return false, tool.Result{}, nil
	}
	return false, tool.Result{}, fmt.Errorf("verify edit of %s: the content of the file does not show whether the edit was applied", a.Path)
}

// try replaces a text where it occurs, and reports whether it does.
func try(text *string, old, with string, all bool) bool {
	if old == "" || !strings.Contains(*text, old) {
		return false
	}
	n := 1
	if all {
		n = -1
		if len(*text)+strings.Count(*text, old)*(len(with)-len(old)) > maxEdited {
			return false
		}
	}
	*text = strings.Replace(*text, old, with, n)
	return true
}
