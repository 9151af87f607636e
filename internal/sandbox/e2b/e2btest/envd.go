package e2btest

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/inspan/inspan/internal/sandbox/mirror/mirrortest"
)

// envd finds the machine that a request is for, and checks its token.
func (s *Server) envd(next func(w http.ResponseWriter, r *http.Request, b *instance)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("E2b-Sandbox-Id")
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		b := s.sandboxes[id]
		s.mu.Unlock()
		switch {
		case r.Header.Get("X-API-Key") != "":
			fail(w, http.StatusBadRequest, "the key of the API was sent to a machine")
		case b == nil || r.Header.Get("E2b-Sandbox-Port") != "49983":
			reply(w, http.StatusBadGateway, map[string]any{"sandboxId": id, "message": "The sandbox was not found", "code": 502})
		case r.Header.Get("X-Access-Token") != b.token:
			fail(w, http.StatusUnauthorized, "unauthorized access")
		default:
			next(w, r, b)
		}
	}
}

type process struct {
	Cmd  string            `json:"cmd"`
	Args []string          `json:"args"`
	Envs map[string]string `json:"envs"`
	Cwd  string            `json:"cwd"`
}

// frames writes messages of a stream.
type frames struct {
	mu  sync.Mutex
	w   http.ResponseWriter
	buf []byte
	// sent counts messages; most, where it is not 0, is when the stream is cut, or goes mute.
	sent, most int
	mute       bool
	cut        chan struct{} // closed when it is
}

// errCut ends a handler whose stream is cut.
var errCut = errors.New("cut on purpose")

func (f *frames) send(flags byte, write func(buf []byte) []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.most > 0 && f.sent >= f.most {
		if f.cut != nil {
			close(f.cut)
			f.cut = nil
		}
		return errCut
	}
	f.sent++
	f.buf = write(append(f.buf[:0], flags, 0, 0, 0, 0))
	binary.BigEndian.PutUint32(f.buf[1:5], uint32(len(f.buf)-5))
	if _, err := f.w.Write(f.buf); err != nil {
		return err
	}
	return http.NewResponseController(f.w).Flush()
}

func (f *frames) text(flags byte, format string, args ...any) error {
	return f.send(flags, func(buf []byte) []byte { return fmt.Appendf(buf, format, args...) })
}

// output sends what a program says, until its end.
func (f *frames) output(name string, r io.Reader, replace func([]byte) []byte) {
	buf := make([]byte, 32<<10)
	var all []byte
	for {
		n, err := r.Read(buf)
		if replace != nil {
			all = append(all, buf[:n]...)
			n = 0
			if err != nil {
				buf = replace(all)
				n = len(buf)
			}
		}
		if n > 0 {
			// Where no one listens any more, the program is not held up.
			_ = f.send(0, func(to []byte) []byte {
				to = append(to, `{"event": {"data": {"`...)
				to = append(to, name...)
				to = append(to, `":"`...)
				to = base64.StdEncoding.AppendEncode(to, buf[:n])
				return append(to, `"}}}`...)
			})
		}
		if err != nil {
			return
		}
	}
}

func (s *Server) start(w http.ResponseWriter, r *http.Request, b *instance) {
	body, err := io.ReadAll(r.Body)
	if err != nil || len(body) < 5 || body[0] != 0 || int(binary.BigEndian.Uint32(body[1:5])) != len(body)-5 ||
		r.Header.Get("Content-Type") != "application/connect+json" || r.Header.Get("Connect-Protocol-Version") != "1" {
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return
	}
	w.Header().Set("Content-Type", "application/connect+json")
	f := &frames{w: w, cut: make(chan struct{})}
	refuse := func(code, text string) { _ = f.text(endOfStream, `{"error":{"code":%q,"message":%q}}`, code, text) }
	var ask struct {
		Process process `json:"process"`
		Stdin   *bool   `json:"stdin"`
	}
	d := json.NewDecoder(bytes.NewReader(body[5:]))
	d.DisallowUnknownFields()
	if err := d.Decode(&ask); err != nil {
		refuse("invalid_argument", err.Error())
		return
	}
	if _, err := os.Stat(ask.Process.Cwd); err != nil {
		refuse("invalid_argument", fmt.Sprintf("cwd '%s' does not exist", ask.Process.Cwd))
		return
	}
	var env []string
	for k, v := range ask.Process.Envs {
		env = append(env, k+"="+v)
	}
	listing := s.spoil(f, ask.Process.Args)
	p, err := b.machine.Start(append([]string{ask.Process.Cmd}, ask.Process.Args...),
		append(env, "USER=user", "E2B_SANDBOX=true"), ask.Process.Cwd, ask.Stdin == nil || *ask.Stdin)
	if err != nil {
		refuse("invalid_argument", err.Error())
		return
	}
	s.attend(f, r, b, p, listing)
}

const endOfStream = 2

// spoil arms the faults that the next stream has.
func (s *Server) spoil(f *frames, args []string) (listing func([]byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults.Cut != "" && slices.Contains(args, s.faults.Cut) {
		f.most, f.mute = s.faults.CutAfter, s.faults.Mute
		s.faults.Cut = ""
	}
	if s.faults.Listing != nil && slices.ContainsFunc(args, func(a string) bool {
		return strings.Contains(a, "-mindepth 1 -printf") && !strings.Contains(a, "xargs -0 rm")
	}) {
		listing, s.faults.Listing = s.faults.Listing, nil
	}
	return listing
}

// attend sends what happens with a program until its end, or until no one listens.
func (s *Server) attend(f *frames, r *http.Request, b *instance, p *mirrortest.Process, listing func([]byte) []byte) {
	pid := int64(p.PID)
	s.mu.Lock()
	b.procs[pid] = p
	s.mu.Unlock()
	cut, done := f.cut, make(chan *os.ProcessState, 1)
	_ = f.text(0, `{"event":{"start":{"pid":%d}}}`, pid) // the end is sent, or not, as this is
	go func() {
		var outputs sync.WaitGroup
		outputs.Go(func() { f.output("stdout", p.Stdout, listing) })
		outputs.Go(func() { f.output("stderr", p.Stderr, nil) })
		outputs.Wait()
		state := p.Wait()
		s.mu.Lock()
		delete(b.procs, pid)
		s.mu.Unlock()
		done <- state
	}()
	select {
	case state := <-done:
		s.end(f, state)
	case <-cut:
		if !f.mute {
			panic(http.ErrAbortHandler)
		}
		select {
		case <-r.Context().Done():
		case <-s.quit:
		}
	case <-r.Context().Done():
		f.mu.Lock() // nothing is written any more when the handler has returned
		f.most, f.sent = 1, 1
		f.mu.Unlock()
	}
}

// end tells how a program ended.
func (s *Server) end(f *frames, state *os.ProcessState) {
	code := ""
	if c := state.ExitCode(); c != 0 {
		code = `"exitCode":` + strconv.Itoa(c) + `,`
	}
	if f.text(0, `{"event":{"end":{%s"exited":%t,"status":%q}}}`, code, state.Exited(), state.String()) == nil {
		_ = f.text(endOfStream, `{}`) // who does not hear it has gone
	}
}

func (s *Server) process(w http.ResponseWriter, b *instance, pid int64) *mirrortest.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := b.procs[pid]; p != nil {
		return p
	}
	reply(w, http.StatusNotFound, map[string]string{"code": "not_found",
		"message": fmt.Sprintf("process with pid %d not found", pid)})
	return nil
}

func (s *Server) sendInput(w http.ResponseWriter, r *http.Request, b *instance) {
	var ask struct {
		Process struct {
			PID int64 `json:"pid"`
		} `json:"process"`
		Input struct {
			Stdin []byte `json:"stdin"`
		} `json:"input"`
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || r.Header.Get("Content-Type") != "application/json" {
		reply(w, http.StatusBadRequest, map[string]string{"code": "invalid_argument", "message": fmt.Sprint(err)})
		return
	}
	p := s.process(w, b, ask.Process.PID)
	if p == nil {
		return
	}
	if _, err := p.Stdin.Write(ask.Input.Stdin); err != nil {
		reply(w, http.StatusInternalServerError, map[string]string{"code": "internal", "message": err.Error()})
		return
	}
	reply(w, http.StatusOK, struct{}{})
}

func (s *Server) closeStdin(w http.ResponseWriter, r *http.Request, b *instance) {
	var ask struct {
		Process struct {
			PID int64 `json:"pid"`
		} `json:"process"`
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		reply(w, http.StatusBadRequest, map[string]string{"code": "invalid_argument", "message": err.Error()})
		return
	}
	if p := s.process(w, b, ask.Process.PID); p != nil {
		_ = p.Stdin.Close() // the second time is as good as the first
		reply(w, http.StatusOK, struct{}{})
	}
}

func (s *Server) upload(w http.ResponseWriter, r *http.Request, b *instance) {
	path := r.URL.Query().Get("path")
	parts, err := r.MultipartReader()
	if err != nil || !filepath.IsAbs(path) {
		fail(w, http.StatusBadRequest, "want a form and an absolute path")
		return
	}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && part.FormName() == "file" {
			err = b.machine.Put(r.Context(), path, part)
		}
		if err != nil {
			fail(w, http.StatusInternalServerError, err.Error())
			return
		}
	}
	reply(w, http.StatusOK, []map[string]string{{"path": path, "name": filepath.Base(path), "type": "file"}})
}

func (s *Server) download(w http.ResponseWriter, r *http.Request, b *instance) {
	path := r.URL.Query().Get("path")
	info, err := os.Stat(path)
	if err != nil {
		fail(w, http.StatusNotFound, fmt.Sprintf("path '%s' does not exist", path))
		return
	}
	body, err := b.machine.Get(r.Context(), path)
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	defer func() { _ = body.Close() }()
	s.mu.Lock()
	most := s.faults.CutDownload
	s.faults.CutDownload = 0
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", fmt.Sprint(info.Size()))
	if most > 0 {
		_, _ = io.CopyN(w, body, most)
		panic(http.ErrAbortHandler)
	}
	_, _ = io.Copy(w, body) // who does not hear it has gone
}
