// Package itemlist reads work items from a file of others: issues of GitHub as JSON, or a Markdown check list.
package itemlist

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/pkg/events"
)

// Limits of a file of work items.
const (
	MaxBytes = 8 << 20
	maxItems = 1000
)

// Item is one item of a file.
type Item struct {
	ID   string
	Spec events.WorkSpec
}

// Read reads the open items of a file: issues of GitHub as JSON, or a Markdown check list. What no item can hold is
// taken out of texts: characters that a terminal acts on, and what is longer than its limit, which the text then says.
func Read(file string, data []byte) (all []Item, err error) {
	switch trimmed := bytes.TrimSpace(data); {
	case len(trimmed) == 0:
		return nil, fmt.Errorf("%s is empty: want issues of GitHub as JSON, or a Markdown check list", file)
	case !utf8.Valid(data):
		return nil, fmt.Errorf("%s is no text in UTF-8", file)
	case trimmed[0] == '[' && json.Valid(trimmed), trimmed[0] == '{':
		all, err = issues(file, trimmed)
	default:
		all, err = checklist(file, string(data))
	}
	if err == nil && len(all) > maxItems {
		err = fmt.Errorf("%s has %d open items, the limit is %d: split it", file, len(all), maxItems)
	}
	return all, err
}

// issue is one of gh issue list --json, or of the REST API.
type issue struct {
	Number  int     `json:"number"`
	Title   string  `json:"title"`
	Body    string  `json:"body"`
	State   string  `json:"state"`
	URL     string  `json:"url"`
	HTMLURL string  `json:"html_url"`
	Labels  []label `json:"labels"`
	// PullRequest stands in the REST API where the issue is a pull request.
	PullRequest json.RawMessage `json:"pull_request"`
}

type label struct {
	Name string `json:"name"`
}

func issues(file string, data []byte) (all []Item, err error) {
	if data[0] == '{' {
		data = append(append([]byte{'['}, data...), ']')
	}
	var list []issue
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("%s: %w: want issues of GitHub, such as gh issue list --json number,title,body,labels,url,state prints", file, err)
	}
	seen := map[string]bool{}
	for i, one := range list {
		if strings.EqualFold(one.State, "closed") || len(one.PullRequest) > 0 && string(one.PullRequest) != "null" {
			continue
		}
		if one.Number <= 0 || strings.TrimSpace(one.Title) == "" {
			return nil, fmt.Errorf("%s: issue %d of the list has no number or no title", file, i+1)
		}
		at := one.HTMLURL
		if at == "" {
			at = one.URL
		}
		m := Item{ID: issueID(at, one.Number),
			Spec: events.WorkSpec{Title: title(one.Title), Text: text(one.Body),
				Source: view.Clip(line(at), events.MaxWorkSource)}}
		for _, l := range one.Labels {
			if name := clipped(line(l.Name), events.MaxWorkLabel); name != "" && len(m.Spec.Labels) < events.MaxWorkLabels-4 {
				m.Spec.Labels = append(m.Spec.Labels, name)
			}
		}
		if seen[m.ID] {
			return nil, fmt.Errorf("%s: issue %s is there twice", file, m.ID)
		}
		seen[m.ID], all = true, append(all, m)
	}
	return all, nil
}

// issueID names an issue by its repository and number.
func issueID(at string, number int) string {
	u, err := url.Parse(at)
	parts := []string{}
	if err == nil {
		parts = strings.Split(strings.Trim(u.Path, "/"), "/")
	}
	if len(parts) < 4 {
		return fmt.Sprintf("gh-%d", number)
	}
	whole := Slug(parts[len(parts)-4]+"-"+parts[len(parts)-3], 0)
	if len(whole) > 40 {
		whole = whole[:29] + "-" + digest(parts[len(parts)-4] + "/" + parts[len(parts)-3])[:10]
	}
	return fmt.Sprintf("gh-%s-%d", whole, number)
}

// checkbox is an item of a Markdown check list.
var checkbox = pattern.New(`^([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]+\[([ xX])\][ \t]+(.*)$`)

// checklist reads the open items of a check list. Lines that are further in than an item, up to the next item, are its
// text; the heading above is its source.
func checklist(file, data string) (all []Item, err error) {
	counts, found, open, indent, fenced := map[string]int{}, 0, -1, 0, false
	for number, row := range strings.Split(data, "\n") {
		row = strings.TrimRight(row, "\r")
		if strings.HasPrefix(strings.TrimSpace(row), "```") {
			fenced = !fenced
		}
		m := checkbox.FindStringSubmatch(row)
		in := len(row) - len(strings.TrimLeft(row, " \t"))
		switch {
		case m != nil && !fenced:
			found, open, indent = found+1, -1, in
			if what := strings.TrimSpace(m[3]); m[2] == " " && what != "" {
				id := "md-" + Slug(what, 32)
				sum := digest(what)[:8]
				if counts[what]++; counts[what] > 1 {
					sum = digest(fmt.Sprintf("%s|%d", what, counts[what]))[:8]
				}
				open, all = len(all), append(all, Item{ID: id + "-" + sum, Spec: events.WorkSpec{Title: title(what),
					Source: view.Clip(line(fmt.Sprintf("%s:%d", file, number+1)), events.MaxWorkSource)}})
			}
		case open >= 0 && (strings.TrimSpace(row) == "" || in > indent):
			all[open].Spec.Text += strings.TrimPrefix(row, row[:min(in, indent+2)]) + "\n"
		default:
			open = -1
		}
	}
	if found == 0 {
		return nil, errors.New(file + ` has no check list: its items begin with "- [ ]"`)
	}
	for i := range all {
		all[i].Spec.Text = text(strings.TrimSpace(all[i].Spec.Text))
	}
	return all, nil
}

// Slug is a text as part of an id: at most so many bytes, 0 for no limit.
func Slug(of string, most int) string {
	var b strings.Builder
	for _, r := range strings.ToLower(of) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	s := b.String()
	if most > 0 && len(s) > most {
		s = s[:most]
	}
	if s = strings.Trim(s, "-"); s == "" {
		return "item"
	}
	return s
}

func digest(of string) string {
	sum := sha256.Sum256([]byte(of))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))
}

// line is a text in one line, without what a terminal acts on.
func line(of string) string { return strings.Join(strings.Fields(clean(of)), " ") }

// clean takes out of a text what an item cannot hold.
func clean(of string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r == '\u2028', r == '\u2029':
			return '\n'
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == utf8.RuneError:
			return -1
		}
		return r
	}, of)
}

func title(of string) string { return clipped(line(of), events.MaxWorkTitle) }

// cut ends a text that was longer than an item can hold.
const cut = "\n[cut here: the source has more]"

func text(of string) string {
	of = clean(of)
	if len(of) > events.MaxWorkText {
		return clipped(of, events.MaxWorkText-len(cut)) + cut
	}
	return of
}

// clipped is the beginning of a text, of at most so many bytes.
func clipped(of string, most int) string {
	if len(of) <= most {
		return of
	}
	for most > 0 && !utf8.RuneStart(of[most]) {
		most--
	}
	return of[:most]
}
