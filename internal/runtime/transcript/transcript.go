// Package transcript takes the files of a session of a program out of its sandbox, and puts them back into another one.
//
// Promises: files are read and written by commands in the sandbox, so a link of the program leads nowhere that the
// program itself could not go. What is taken is bytes of regular files whose names fit the patterns of the runtime, and
// bounded. What is put back is nothing else, below HOME, and only where there is no such file.
package transcript

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

const (
	// MaxBytes is the most bytes that the files of a session have together, MaxFiles how many there are.
	MaxBytes = 16 << 20
	MaxFiles = 16
	// maxPath is the longest name of a file.
	maxPath = 512
	// wait bounds one command in the sandbox.
	wait = 30 * time.Second
)

// Errors that callers tell apart.
var (
	// ErrTooLarge means that the files of a session are more than is stored.
	ErrTooLarge = fmt.Errorf("the files of the session have more than %d bytes, or are more than %d", MaxBytes, MaxFiles)
	// ErrMalformed means that what was read or stored is not as it should be.
	ErrMalformed = errors.New("the files of the session are not as they should be")
)

var sessionRule = pattern.New(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)

// patterns are the names of the files of a session; nil where there are none. The session is text of the program.
func patterns(r events.Runtime, session string) []string {
	if !sessionRule.MatchString(session) {
		return nil
	}
	var all []string
	for _, p := range r.Transcripts {
		all = append(all, strings.ReplaceAll(p, events.TranscriptSession, session))
	}
	return all
}

// fits reports whether a file may be one of a session.
func fits(name string, patterns []string) bool {
	return len(name) <= maxPath && filepath.IsLocal(name) && path.Clean(name) == name &&
		!strings.ContainsFunc(name, unicode.IsControl) &&
		slices.ContainsFunc(patterns, func(p string) bool { ok, err := path.Match(p, name); return ok && err == nil })
}

// takeScript prints the name, the size and the content of each file that fits.
const takeScript = `cd "$HOME" || exit 1
IFS=
for p in "$@"; do
	for f in $p; do
		[ -f "$f" ] && [ ! -L "$f" ] && [ -r "$f" ] || continue
		n=$(wc -c < "$f") || continue
		printf '%s\n%d\n' "$f" "$n"
		head -c "$n" "$f"
	done
done`

// Take returns the files of a session, in the order of the patterns; none where the runtime names none, or there are
// none yet. Of lines of JSON the last is left out while it is written.
func Take(ctx context.Context, sb sandbox.Sandbox, r events.Runtime, session string) ([]tool.InnerFile, error) {
	names := patterns(r, session)
	if len(names) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	out := &bounded{left: MaxBytes + MaxFiles*(maxPath+32)}
	exit, err := sb.Exec(ctx, sandbox.Cmd{Args: append([]string{"sh", "-c", takeScript, "sh"}, names...), Stdout: out,
		AnyProgram: true})
	switch {
	case out.left < 0:
		return nil, ErrTooLarge
	case err != nil:
		return nil, fmt.Errorf("read the files of the session: %w", err)
	case exit.Code != 0:
		return nil, fmt.Errorf("read the files of the session: status %d", exit.Code)
	}
	return parse(out.b.Bytes(), names)
}

// parse reads what takeScript printed, in which any file may have been exchanged meanwhile.
func parse(b []byte, patterns []string) (files []tool.InnerFile, err error) {
	total := 0
	for len(b) > 0 {
		name, rest, named := bytes.Cut(b, []byte("\n"))
		size, rest, sized := bytes.Cut(rest, []byte("\n"))
		n, err := strconv.Atoi(string(size))
		if !named || !sized || err != nil || n < 0 || n > len(rest) || !fits(string(name), patterns) {
			return nil, ErrMalformed
		}
		if total += n; len(files) == MaxFiles || total > MaxBytes {
			return nil, ErrTooLarge
		}
		data := rest[:n]
		if strings.HasSuffix(string(name), ".jsonl") {
			data = data[:bytes.LastIndexByte(data, '\n')+1]
		}
		if len(data) > 0 {
			files = append(files, tool.InnerFile{Path: string(name), Data: data})
		}
		b = rest[n:]
	}
	return files, nil
}

// putScript writes one file from its input, where there is none of its name.
const putScript = `cd "$HOME" || exit 1
if [ -e "$1" ] || [ -L "$1" ]; then exit 0; fi
umask 077
mkdir -p "$(dirname "$1")" && cat > "$1.part" && mv "$1.part" "$1"`

// Put writes files of a session that were taken before.
func Put(ctx context.Context, sb sandbox.Sandbox, r events.Runtime, session string, files []tool.InnerFile) error {
	names := patterns(r, session)
	for _, f := range files {
		if !fits(f.Path, names) {
			return fmt.Errorf("%w: %.128q is no file of the session", ErrMalformed, f.Path)
		}
		ctx, cancel := context.WithTimeout(ctx, wait)
		exit, err := sb.Exec(ctx, sandbox.Cmd{Args: []string{"sh", "-c", putScript, "sh", f.Path},
			Stdin:      bytes.NewReader(f.Data),
			AnyProgram: true})
		cancel()
		if err != nil {
			return fmt.Errorf("put back the files of the session: %w", err)
		}
		if exit.Code != 0 {
			return fmt.Errorf("put back the files of the session: status %d", exit.Code)
		}
	}
	return nil
}

// Digest tells files from others.
func Digest(files []tool.InnerFile) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%q %d\n", f.Path, len(f.Data))
		h.Write(f.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// bounded keeps what is written, and nothing of it once it is too much.
type bounded struct {
	b    bytes.Buffer
	left int
}

// Write implements io.Writer.
func (o *bounded) Write(p []byte) (int, error) {
	if o.left -= len(p); o.left < 0 {
		o.b.Reset()
		return 0, ErrTooLarge
	}
	return o.b.Write(p)
}
