// Package e2btest is a stand-in for the E2B cloud: its REST API and the service of its machines, over HTTP, as far as
// package e2b uses them. Commands really run, on this machine, in a directory of each sandbox (mirrortest.Machine).
//
// Promises: a request without the right key or token is refused; so is a message that the real service would not
// understand. As there, a command's end is only told when no one holds its output any more, it lives on when its stream
// is lost, outputs are read apart, and a machine whose time is over is not there. Faults are asked for by the test: see
// Faults.
package e2btest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/sandbox/mirror/mirrortest"
)

// Key is what the server wants as API key, Template the one template that it has.
const (
	Key      = "e2b_00000000000000000000000000000000000000ff"
	Template = "base"
)

// Size of the machines.
const (
	CPUs     = 2
	MemoryMB = 512
	DiskMB   = 1024
)

// Faults are what the server does wrong, on purpose.
type Faults struct {
	// Refuse answers the next requests to the API with these statuses, one each; RetryAfter goes with them, in seconds.
	Refuse     []int
	RetryAfter int
	// LoseCreated makes the next machine and does not tell.
	LoseCreated bool
	// CutAfter cuts the stream of the next command whose program has Cut among its arguments, after so many messages.
	CutAfter int
	Cut      string
	// Mute says nothing more on such a stream, instead of cutting it.
	Mute bool
	// CutDownload cuts the next download after so many bytes; 0 does not.
	CutDownload int64
	// Listing, where set, is said in the place of what the next listing of a tree says.
	Listing func(real []byte) []byte
}

// Server is the cloud.
type Server struct {
	URL string
	dir string

	mu        sync.Mutex
	sandboxes map[string]*instance // guarded by mu, as is what follows
	faults    Faults
	requests  []string
	next      int
	quit      chan struct{}
	http      *httptest.Server
}

type instance struct {
	id, token string
	labels    map[string]string
	internet  bool
	machine   *mirrortest.Machine
	started   time.Time
	ends      time.Time
	procs     map[int64]*mirrortest.Process // guarded by Server.mu
}

// New starts a server whose machines live below dir. Close it when done.
func New(dir string) *Server {
	s := &Server{dir: dir, sandboxes: map[string]*instance{}, quit: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /sandboxes", s.api(s.create))
	mux.HandleFunc("GET /v2/sandboxes", s.api(s.list))
	mux.HandleFunc("GET /sandboxes/{id}", s.api(s.one))
	mux.HandleFunc("DELETE /sandboxes/{id}", s.api(s.kill))
	mux.HandleFunc("POST /sandboxes/{id}/timeout", s.api(s.extend))
	mux.HandleFunc("POST /process.Process/Start", s.envd(s.start))
	mux.HandleFunc("POST /process.Process/SendInput", s.envd(s.sendInput))
	mux.HandleFunc("POST /process.Process/CloseStdin", s.envd(s.closeStdin))
	mux.HandleFunc("POST /files", s.envd(s.upload))
	mux.HandleFunc("GET /files", s.envd(s.download))
	s.http = httptest.NewServer(mux)
	s.URL = s.http.URL
	return s
}

// Close ends all machines and the server.
func (s *Server) Close() {
	s.mu.Lock()
	close(s.quit)
	all := s.sandboxes
	s.sandboxes = map[string]*instance{}
	s.mu.Unlock()
	for _, b := range all {
		_ = b.machine.End(context.Background()) // nothing to be done about it
	}
	s.http.CloseClientConnections()
	s.http.Close()
}

// Fail sets what goes wrong from now on.
func (s *Server) Fail(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// Requests returns how many requests were made whose method and path begin so, such as "DELETE /sandboxes/".
func (s *Server) Requests(prefix string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.requests {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

// Boxes are the ids of the machines that are there.
func (s *Server) Sandboxes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for id := range s.sandboxes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Label changes a label of a machine, as if another had made it.
func (s *Server) Label(id, name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sandboxes[id].labels[name] = value
}

// Labels are those of a machine; Internet tells whether it was given a way out.
func (s *Server) Labels(id string) (labels map[string]string, internet bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	labels = map[string]string{}
	for k, v := range s.sandboxes[id].labels {
		labels[k] = v
	}
	return labels, s.sandboxes[id].internet
}

// Expire ends a machine as its time does.
func (s *Server) Expire(id string) { s.remove(id) }

func (s *Server) remove(id string) bool {
	s.mu.Lock()
	b := s.sandboxes[id]
	delete(s.sandboxes, id)
	s.mu.Unlock()
	if b == nil {
		return false
	}
	_ = b.machine.End(context.Background()) // what is left is seen by the leash of the exam
	return true
}

func fail(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"code": status, "message": text})
}

func reply(w http.ResponseWriter, status int, what any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(what)
}

// api checks the key.
func (s *Server) api(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		refuse := 0
		if len(s.faults.Refuse) > 0 {
			refuse, s.faults.Refuse = s.faults.Refuse[0], s.faults.Refuse[1:]
		}
		after := s.faults.RetryAfter
		s.mu.Unlock()
		switch {
		case r.Header.Get("X-API-Key") != Key:
			fail(w, http.StatusUnauthorized, "invalid API key")
		case refuse != 0:
			if after > 0 {
				w.Header().Set("Retry-After", strconv.Itoa(after))
			}
			w.Header().Set("Location", s.URL+"/elsewhere")
			fail(w, refuse, "refused on purpose")
		default:
			next(w, r)
		}
	}
}

func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Template string            `json:"templateID"`
		Timeout  int               `json:"timeout"`
		Secure   bool              `json:"secure"`
		Internet *bool             `json:"allow_internet_access"`
		Labels   map[string]string `json:"metadata"`
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&ask); err != nil || ask.Timeout <= 0 || ask.Timeout > 86400 {
		fail(w, http.StatusBadRequest, fmt.Sprint("bad request: ", err))
		return
	}
	if ask.Template != Template {
		fail(w, http.StatusNotFound, fmt.Sprintf("template '%s' not found", ask.Template))
		return
	}
	m, err := mirrortest.New(s.dir)
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	s.mu.Lock()
	s.next++
	b := &instance{id: fmt.Sprintf("box%d", s.next), labels: ask.Labels, internet: ask.Internet == nil || *ask.Internet,
		machine: m,
		started: time.Now(), ends: time.Now().Add(time.Duration(ask.Timeout) * time.Second),
		procs: map[int64]*mirrortest.Process{}}
	if ask.Secure {
		b.token = fmt.Sprintf("token-%d", s.next)
	}
	s.sandboxes[b.id] = b
	lose := s.faults.LoseCreated
	s.faults.LoseCreated = false
	s.mu.Unlock()
	if lose {
		panic(http.ErrAbortHandler)
	}
	reply(w, http.StatusCreated, map[string]any{"templateID": Template, "sandboxID": b.id, "clientID": "c",
		"envdVersion": "0.6.4", "envdAccessToken": b.token, "domain": nil})
}

// detail is a machine as lists tell it.
func (b *instance) detail() map[string]any {
	return map[string]any{"templateID": Template, "sandboxID": b.id, "clientID": "c",
		"startedAt": b.started.UTC().Format(time.RFC3339), "endAt": b.ends.UTC().Format(time.RFC3339),
		"cpuCount": CPUs, "memoryMB": MemoryMB, "diskSizeMB": DiskMB, "metadata": b.labels, "state": "running",
		"envdVersion": "0.6.4"}
}

// pageSize is small, so that lists have several pages.
const pageSize = 2

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	filter, err := url.ParseQuery(r.URL.Query().Get("metadata"))
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []map[string]any{}
	var ids []string
	for id, b := range s.sandboxes {
		fits := true
		for k := range filter {
			fits = fits && b.labels[k] == filter.Get(k)
		}
		if fits && id > r.URL.Query().Get("nextToken") {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if len(ids) > pageSize {
		ids = ids[:pageSize]
		w.Header().Set("X-Next-Token", ids[pageSize-1])
	}
	for _, id := range ids {
		found = append(found, s.sandboxes[id].detail())
	}
	reply(w, http.StatusOK, found)
}

func (s *Server) one(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.sandboxes[r.PathValue("id")]
	if b == nil {
		fail(w, http.StatusNotFound, "sandbox not found")
		return
	}
	reply(w, http.StatusOK, b.detail())
}

func (s *Server) kill(w http.ResponseWriter, r *http.Request) {
	if !s.remove(r.PathValue("id")) {
		fail(w, http.StatusNotFound, "sandbox not found")
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) extend(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Timeout int `json:"timeout"`
	}
	err := json.NewDecoder(r.Body).Decode(&ask)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.sandboxes[r.PathValue("id")]
	switch {
	case err != nil || ask.Timeout <= 0:
		fail(w, http.StatusBadRequest, "bad request")
	case b == nil:
		fail(w, http.StatusNotFound, "sandbox not found")
	default:
		b.ends = time.Now().Add(time.Duration(ask.Timeout) * time.Second)
		w.WriteHeader(http.StatusNoContent)
	}
}
