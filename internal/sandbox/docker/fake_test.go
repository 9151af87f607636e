package docker_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/api/types/container"

	"github.com/inspan/inspan/internal/sandbox/docker"
	"github.com/inspan/inspan/internal/sandbox/docker/within"
)

// engine is one that is none: it speaks as an engine of version 20.10 does, and what it is to run in a container it
// runs on this machine. So it proves what is asked of an engine and what is made of its answers, and nothing of walls.
type engine struct {
	t    testing.TB
	addr string // unix:///...

	mu        sync.Mutex
	server    *http.Server // guarded by mu, as is the rest
	served    sync.WaitGroup
	conns     map[net.Conn]bool
	sandboxes map[string]*vessel
	execs     map[string]string // container by exec
	images    map[string]string // JSON by name
	pulled    []string
	info      string
	fault     string // what the first process finds wrong
	next      int
	keep      bool // containers cannot be removed
}

// vessel is a container that is none.
type vessel struct {
	name    string
	order   container.CreateRequest
	started bool
	procs   []*exec.Cmd
}

const goodInfo = `{"OSType":"linux","MemoryLimit":true,"CpuCfsQuota":true,"PidsLimit":true,"CgroupVersion":"1"}`

// newEngine starts one, with an image called tools.
func newEngine(t testing.TB) *engine {
	t.Helper()
	dir, err := os.MkdirTemp("", "eng") // short: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{t: t, addr: "unix://" + dir + "/s", conns: map[net.Conn]bool{}, sandboxes: map[string]*vessel{}, execs: map[string]string{}, info: goodInfo,
		images: map[string]string{"tools": `{"Id":"sha256:abc","Config":{"Env":["PATH=/opt/tools/bin:/usr/bin","LANG=xx","TOOLS=yes"],"Volumes":{"/data":{}}}}`}}
	e.up()
	t.Cleanup(func() {
		e.down()
		e.mu.Lock()
		for _, v := range e.sandboxes {
			v.end()
		}
		e.mu.Unlock()
		e.served.Wait()
		_ = os.RemoveAll(dir)
	})
	return e
}

// up makes it answer.
func (e *engine) up() {
	e.t.Helper()
	l, err := net.Listen("unix", strings.TrimPrefix(e.addr, "unix://"))
	if err != nil {
		e.t.Fatal(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.server = &http.Server{Handler: http.HandlerFunc(e.serve), ConnState: func(c net.Conn, s http.ConnState) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.conns[c] = s != http.StateClosed
	}}
	s := e.server
	e.served.Go(func() { _ = s.Serve(l) }) // it ends with the server
}

// down makes it stop in the middle of everything. Its containers stay.
func (e *engine) down() {
	e.mu.Lock()
	s, conns := e.server, e.conns
	e.conns = map[net.Conn]bool{}
	e.mu.Unlock()
	_ = s.Close()
	for c, open := range conns {
		if open {
			_ = c.Close()
		}
	}
}

// program is the head of an ELF file, with at most one part of a kind.
func program(parts, kind byte) []byte {
	elf := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 113)...)
	elf[16], elf[18], elf[20], elf[32], elf[52], elf[54], elf[56] = 2, 62, 1, 64, 64, 56, parts
	elf[64] = kind
	return elf
}

// backend is one that uses this engine.
func (e *engine) backend(t testing.TB, change func(*docker.Config)) *docker.Backend {
	t.Helper()
	helper := filepath.Join(t.TempDir(), "helper")
	if err := os.WriteFile(helper, program(0, 0), 0o755); err != nil { // without parts it needs no libraries
		t.Fatal(err)
	}
	cfg := docker.Config{Host: e.addr, Image: "tools", Helper: helper, User: fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()), Base: t.TempDir()}
	if change != nil {
		change(&cfg)
	}
	return docker.New(cfg)
}

func (e *engine) orders() (list []container.CreateRequest) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, v := range e.sandboxes {
		list = append(list, v.order)
	}
	return list
}

func (e *engine) serve(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/v1.41")
	if path != "/containers/create" {
		_, _ = io.Copy(io.Discard, r.Body) // nothing of it is needed; what comes after it is the connection's
	}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	w.Header().Set("Api-Version", "1.41")
	e.mu.Lock()
	info := e.info
	e.mu.Unlock()
	switch {
	case path == "/_ping":
	case path == "/info":
		_, _ = io.WriteString(w, info)
	case parts[0] == "images":
		e.serveImages(w, r, parts)
	case path == "/containers/json":
		e.list(w)
	case path == "/containers/create":
		e.create(w, r)
	case parts[0] == "containers" && len(parts) >= 2:
		e.serveContainer(w, r, parts)
	case parts[0] == "exec" && parts[2] == "start":
		e.exec(w, parts[1])
	default:
		http.Error(w, `{"message":"not known here"}`, http.StatusNotImplemented)
	}
}

func (e *engine) serveImages(w http.ResponseWriter, r *http.Request, parts []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if parts[1] == "create" {
		name := strings.TrimPrefix(r.URL.Query().Get("fromImage"), "docker.io/library/")
		e.pulled = append(e.pulled, name)
		e.images[name] = `{"Id":"sha256:def"}`
		_, _ = io.WriteString(w, `{"status":"done"}`+"\n")
		return
	}
	if text := e.images[parts[1]]; text != "" {
		_, _ = io.WriteString(w, text)
		return
	}
	http.Error(w, `{"message":"No such image"}`, http.StatusNotFound)
}

func (e *engine) list(w http.ResponseWriter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := []container.Summary{}
	for id, v := range e.sandboxes {
		list = append(list, container.Summary{ID: id, Labels: v.order.Labels})
	}
	_ = json.NewEncoder(w).Encode(list)
}

func (e *engine) create(w http.ResponseWriter, r *http.Request) {
	v := &vessel{name: r.URL.Query().Get("name")}
	if err := json.NewDecoder(r.Body).Decode(&v.order); err != nil {
		http.Error(w, `{"message":"no order"}`, http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.next++
	id := fmt.Sprintf("c%d", e.next)
	e.sandboxes[id] = v
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(container.CreateResponse{ID: id})
}

func (e *engine) serveContainer(w http.ResponseWriter, r *http.Request, parts []string) {
	id, verb := parts[1], strings.Join(parts[2:], "/")
	e.mu.Lock()
	v, keep := e.sandboxes[id], e.keep
	e.mu.Unlock()
	if v == nil {
		http.Error(w, `{"message":"No such container"}`, http.StatusNotFound)
		return
	}
	switch {
	case r.Method == http.MethodDelete && keep:
		http.Error(w, `{"message":"device or resource busy"}`, http.StatusInternalServerError)
	case r.Method == http.MethodDelete:
		e.mu.Lock()
		v.end()
		delete(e.sandboxes, id)
		e.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	case verb == "start":
		e.mu.Lock()
		v.started = true
		e.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	case verb == "json":
		_, _ = io.WriteString(w, `{"Id":"`+id+`"}`)
	case verb == "attach":
		e.first(w, id)
	case verb == "exec":
		e.mu.Lock()
		e.next++
		run := fmt.Sprintf("x%d", e.next)
		e.execs[run] = id
		e.mu.Unlock()
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(container.ExecCreateResponse{ID: run})
	default:
		http.Error(w, `{"message":"not known here"}`, http.StatusNotImplemented)
	}
}

func (v *vessel) end() {
	for _, p := range v.procs {
		_ = p.Process.Kill() // it may be gone
	}
}

// hijack takes the connection over.
func hijack(w http.ResponseWriter) (net.Conn, *bufio.Reader) {
	conn, buf, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
	return conn, buf.Reader
}

// piece writes output as the engine does: each piece with its kind and length.
type piece struct {
	mu   *sync.Mutex
	w    io.Writer
	kind byte
}

func (p piece) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := [8]byte{p.kind}
	binary.BigEndian.PutUint32(h[4:], uint32(len(data)))
	if _, err := p.w.Write(append(h[:], data...)); err != nil {
		return 0, err
	}
	return len(data), nil
}

// first is the first process of a container: it finds what it is told to, and ends with its connection.
func (e *engine) first(w http.ResponseWriter, id string) {
	conn, r := hijack(w)
	defer func() { _ = conn.Close() }()
	line := within.NewLine(r, piece{&sync.Mutex{}, conn, 1})
	var order within.Setup
	if line.Want(within.FrameOrder, &order) != nil {
		return
	}
	e.mu.Lock()
	said := within.Ready{Fault: e.fault}
	e.mu.Unlock()
	_ = line.SendJSON(within.FrameBegun, said)
	_, _, _ = line.Next()
	e.mu.Lock()
	defer e.mu.Unlock()
	if v := e.sandboxes[id]; v != nil {
		v.end()
	}
}

// exec runs the helper as the parent of a command, on this machine.
func (e *engine) exec(w http.ResponseWriter, run string) {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	conn, r := hijack(w)
	defer func() { _ = conn.Close() }()
	var mu sync.Mutex
	cmd := exec.Command(self, within.Flag, within.RoleExec)
	cmd.Stdout, cmd.Stderr = piece{&mu, conn, 1}, piece{&mu, conn, 2}
	in, err := cmd.StdinPipe()
	if err != nil {
		panic(err)
	}
	e.mu.Lock()
	if err = cmd.Start(); err == nil {
		if v := e.sandboxes[e.execs[run]]; v != nil {
			v.procs = append(v.procs, cmd)
		}
	}
	e.mu.Unlock()
	if err != nil {
		return
	}
	e.served.Go(func() {
		_, _ = io.Copy(in, r) // it ends with the connection
		_ = in.Close()
	})
	_ = cmd.Wait() // how it ended is in what it said
}
