// Package help serves the documentation in the console: its pages, and a search over them.
//
// Promises: what is served is the documents of this version, which anybody may read. A search costs one pass over them,
// whatever is asked, and answers with at most a few sections.
package help

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"slices"
	"sort"
	"strings"
)

const (
	// maxHits is how many sections a search returns, maxWords how many words of a question count, maxQuestion its bytes.
	maxHits, maxWords, maxQuestion = 30, 8, 200
	// excerptBytes are shown of a section.
	excerptBytes = 160
)

// section is a part of a page below one heading.
type section struct {
	// Page is the name of the file without its ending, Title that of the page, Heading the section's.
	Page    string `json:"page"`
	Title   string `json:"title"`
	Heading string `json:"heading"`
	Excerpt string `json:"excerpt"`

	text, lower string
}

// Handler serves NAME.md and search?q=WORDS, by the path of a request. documents are the pages.
func Handler(documents fs.FS) (http.Handler, error) {
	pages, sections := map[string][]byte{}, []section(nil)
	err := fs.WalkDir(documents, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(documents, name)
		pages[name] = data
		sections = append(sections, sectionsOf(strings.TrimSuffix(name, ".md"), string(data))...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'")
		h.Set("Cache-Control", "no-cache")
		if r.URL.Path == "search" {
			h.Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(search(sections, r.URL.Query().Get("q"))) // the client is gone
			return
		}
		page, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h.Set("Content-Type", "text/markdown; charset=utf-8")
		_, _ = w.Write(page) // as above
	}), nil
}

// sectionsOf cuts a page at its headings, which do not stand in code.
func sectionsOf(page, text string) (all []section) {
	now, fenced := section{Page: page}, false
	end := func() {
		if now.lower = strings.ToLower(now.Heading + "\n" + now.text); strings.TrimSpace(now.lower) != "" {
			all = append(all, now)
		}
	}
	for line := range strings.Lines(text) {
		fenced = fenced != strings.HasPrefix(line, "```")
		heading, is := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if fenced || !is || !strings.HasPrefix(line, "#") {
			now.text += line
			continue
		}
		end()
		heading = strings.TrimSpace(heading)
		now = section{Page: page, Title: now.Title, Heading: heading}
		if now.Title == "" {
			now.Title = heading
		}
	}
	end()
	return all
}

// search returns the sections that have all words of a question, those first that have them in their heading.
func search(sections []section, question string) []section {
	found := []section{}
	words := strings.Fields(strings.ToLower(question[:min(len(question), maxQuestion)]))
	words = words[:min(len(words), maxWords)]
	if len(words) == 0 {
		return found
	}
	rank := func(s section) (n int) {
		for _, w := range words {
			if strings.Contains(strings.ToLower(s.Heading), w) {
				n++
			}
		}
		return n
	}
	for _, s := range sections {
		if slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(s.lower, w) }) {
			continue
		}
		s.Excerpt = excerpt(s.text, words[0])
		found = append(found, s)
	}
	sort.SliceStable(found, func(i, j int) bool { return rank(found[j]) < rank(found[i]) })
	return found[:min(len(found), maxHits)]
}

// marks are signs of Markdown, which say nothing in an excerpt.
var marks = strings.NewReplacer("`", "", "**", "", "|", " ", "#", "")

// excerpt is the part of a text where a word stands first, in one line of whole words.
func excerpt(text, word string) string {
	text = strings.Join(strings.Fields(marks.Replace(text)), " ")
	from := max(strings.Index(strings.ToLower(text), word)-excerptBytes/3, 0)
	to := min(from+excerptBytes, len(text))
	part := strings.ToValidUTF8(text[min(from, to):to], "")
	if _, rest, ok := strings.Cut(part, " "); ok && from > 0 {
		part = "… " + rest
	}
	if i := strings.LastIndexByte(part, ' '); i > 0 && to < len(text) {
		part = part[:i] + " …"
	}
	return part
}
