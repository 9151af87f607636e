package tools

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/inspan/inspan/pkg/tool"
)

const readSchema = `{"type":"object","additionalProperties":false,"required":["path"],"properties":{
"path":{"type":"string","minLength":1,"maxLength":4096,"description":"file, relative to the workspace"},
"offset":{"type":"integer","minimum":1,"description":"first line, from 1"},
"limit":{"type":"integer","minimum":1,"maximum":20000,"description":"most lines, 2000 if absent"}}}`

type readArgs struct {
	Path          string
	Offset, Limit int
}

// Limits of read.
const (
	readLines = 2000
	// maxLine is the most bytes shown of one line.
	maxLine = 2000
)

func read(_ context.Context, a readArgs, env tool.Env) (tool.Result, error) {
	data, err := env.Sandbox.ReadFile(a.Path)
	if err != nil {
		return fileError("read", a.Path, err)
	}
	if tool.MediaTypeOf(data) != "" {
		return readImage(a.Path, data), nil
	}
	if binary(data) {
		return failed("read: %q is a binary file of %d bytes", a.Path, len(data)), nil
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	first, most := max(a.Offset, 1), a.Limit
	if most == 0 {
		most = readLines
	}
	if len(data) == 0 {
		return tool.Result{Output: "(the file is empty)"}, nil
	}
	if first > len(lines) {
		return failed("read: %q has %d lines, line %d is past the end", a.Path, len(lines), first), nil
	}
	last := min(first-1+most, len(lines))
	var b strings.Builder
	for i, l := range lines[first-1 : last] {
		fmt.Fprintf(&b, "%6d\t%s\n", first+i, clipLine(l))
	}
	switch {
	case last < len(lines):
		fmt.Fprintf(&b, "(lines %d-%d of %d; %d more lines; continue with offset %d)\n", first, last, len(lines),
			len(lines)-last, last+1)
	case first > 1:
		fmt.Fprintf(&b, "(lines %d-%d of %d: the end)\n", first, last, len(lines))
	}
	return tool.Show(env, b.String()), nil
}

// readImage shows a picture, with its kind and size in words.
func readImage(path string, data []byte) tool.Result {
	i, err := tool.ReadImage(data)
	if err != nil {
		return failed("read: %q cannot be shown: %v; make a smaller or repaired copy of it and read the copy", path, err)
	}
	return tool.Result{Output: fmt.Sprintf("%s: %s", oneLine(path), i), Images: []tool.Image{i}}
}

func clipLine(l string) string {
	if len(l) <= maxLine {
		return l
	}
	return strings.ToValidUTF8(l[:maxLine], "") + fmt.Sprintf("... (%d bytes more in this line)", len(l)-maxLine)
}

// binary reports whether the beginning of a file holds a NUL, as text never does.
func binary(data []byte) bool {
	return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0
}
