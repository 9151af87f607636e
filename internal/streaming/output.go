package streaming

import (
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/inspan/inspan/internal/secret"
)

// Output passes what a call or a job writes on, with secrets masked also where they are cut in two. It may be used by
// several goroutines.
type Output struct {
	stream  *Stream
	secrets []secret.Value
	copy    func(text []byte)

	mu   sync.Mutex
	hide map[string]*secret.Stream // by output, guarded by mu
}

// Output opens a stream for what a call or a job writes. copy takes all that is passed on as well; nil takes nothing.
func (f *Feed) Output(run string, about About, copy func(text []byte), secrets ...secret.Value) *Output {
	return &Output{stream: f.Open(run, about), secrets: secrets, copy: copy, hide: map[string]*secret.Stream{}}
}

// Write passes a chunk of an output, such as "stderr", on.
func (o *Output) Write(output string, chunk []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.hide[output] == nil {
		o.hide[output] = secret.NewStream(o.secrets...)
	}
	o.pass(output, o.hide[output].Next(chunk))
}

func (o *Output) pass(output string, text []byte) {
	if len(text) == 0 {
		return
	}
	if o.copy != nil {
		o.copy(text)
	}
	o.stream.Write(ToolOutput, output, string(text))
}

// Writer writes one output.
func (o *Output) Writer(output string) io.Writer { return writer{o, output} }

type writer struct {
	of   *Output
	name string
}

// Write implements io.Writer.
func (w writer) Write(p []byte) (int, error) {
	w.of.Write(w.name, p)
	return len(p), nil
}

// Close passes on what was held back and ends the stream.
func (o *Output) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, output := range slices.Sorted(maps.Keys(o.hide)) {
		o.pass(output, o.hide[output].Rest())
	}
	o.stream.Done(nil)
	o.stream.Close()
}

// Cancel ends the stream of what never began.
func (o *Output) Cancel() { o.stream.Close() }
