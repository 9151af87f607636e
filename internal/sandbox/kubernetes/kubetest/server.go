// Package kubetest is a stand-in for the API server of a Kubernetes cluster: pods and exec in them over WebSocket, as
// far as package kubernetes uses them. Commands really run, on this machine, in a directory of each pod
// (mirrortest.Machine), which is in the place of the volume at the pod's HOME.
//
// Promises: a request without the token is refused, as is a pod that a real server would not take or that is not closed
// as it should be. A pod starts and ends after a while, and an exec ends when no one holds its output any more and
// lives on when its connection is lost, as there. It is no cluster: no wall of a pod is put up.
package kubetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/inspan/inspan/internal/sandbox/mirror/mirrortest"
)

// Token is what the server wants, and Image the one image that it has.
const (
	Token = "a-service-account-token"
	Image = "registry.example/tools:1"
)

// Faults are what the server does wrong, on purpose.
type Faults struct {
	// Refuse answers the next requests with these statuses, one each.
	Refuse []int
	// Unschedulable pods never start.
	Unschedulable bool
	// Cut cuts the connection of the next exec that says this word.
	Cut string
	// Old speaks no protocol that can close an input.
	Old bool
	// Ungranted claims never get a pod.
	Ungranted bool
}

// Server is the API server.
type Server struct {
	URL string
	dir string

	mu     sync.Mutex
	pods   map[string]*pod // guarded by mu, as is what follows
	claims map[string]*claim
	pool   map[string]any // the template of Pool's pods, nil without agent-sandbox
	faults Faults
	paths  []string
	http   *httptest.Server
}

type pod struct {
	object  map[string]any
	labels  map[string]string
	machine *mirrortest.Machine
	looks   int    // how often it was looked at since it was made or deleted
	ending  bool   // it was deleted
	evicted string // why the node ended it
}

// New starts a server whose pods live below dir. Close it when done.
func New(dir string) *Server {
	s := &Server{dir: dir, pods: map[string]*pod{}, claims: map[string]*claim{}}
	mux := http.NewServeMux()
	const at = "/api/v1/namespaces/{namespace}/pods"
	mux.HandleFunc("POST "+at, s.guard(s.create))
	mux.HandleFunc("GET "+at, s.guard(s.list))
	mux.HandleFunc("GET "+at+"/{name}", s.guard(s.get))
	mux.HandleFunc("DELETE "+at+"/{name}", s.guard(s.remove))
	mux.HandleFunc("GET "+at+"/{name}/exec", s.guard(s.exec))
	s.serveClaims(mux)
	s.http = httptest.NewServer(mux)
	s.URL = s.http.URL
	return s
}

// Close ends all pods and the server.
func (s *Server) Close() {
	s.mu.Lock()
	all := s.pods
	s.pods = map[string]*pod{}
	s.mu.Unlock()
	for _, p := range all {
		_ = p.machine.End(context.Background()) // nothing to be done about it
	}
	s.http.CloseClientConnections()
	s.http.Close()
}

// TokenFile writes the token into a file of a directory and returns its path.
func TokenFile(dir string) (string, error) {
	at := filepath.Join(dir, "token")
	return at, os.WriteFile(at, []byte(Token+"\n"), 0o600)
}

// Fail sets what goes wrong from now on.
func (s *Server) Fail(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// Pods are the names of the pods that are there.
func (s *Server) Pods() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name := range s.pods {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Pod is what was asked for.
func (s *Server) Pod(name string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[name].object
}

// Mark changes a label or annotation of a pod or claim, as if another had made it.
func (s *Server) Mark(name, kind, key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.claims[name]; c != nil {
		meta(c.object)[kind].(map[string]any)[key] = value
		return
	}
	p := s.pods[name]
	meta(p.object)[kind].(map[string]any)[key] = value
	if kind == "labels" {
		p.labels[key] = value
	}
}

// Evict ends a pod with all that runs in it, as a node does, and keeps it.
func (s *Server) Evict(name, why string) {
	s.mu.Lock()
	p := s.pods[name]
	p.evicted, p.looks = why, 0
	s.mu.Unlock()
	_ = p.machine.End(context.Background()) // nothing to be done about it
}

// Paths are the addresses of all requests, with what was asked.
func (s *Server) Paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.paths)
}

func meta(object map[string]any) map[string]any { return object["metadata"].(map[string]any) }

func reply(w http.ResponseWriter, status int, what any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(what)
}

func refuse(w http.ResponseWriter, status int, reason, message string) {
	reply(w, status, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status,
		"reason": reason, "message": message})
}

// guard checks the token.
func (s *Server) guard(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.paths = append(s.paths, r.Method+" "+r.URL.String())
		code := 0
		if len(s.faults.Refuse) > 0 {
			code, s.faults.Refuse = s.faults.Refuse[0], s.faults.Refuse[1:]
		}
		s.mu.Unlock()
		switch {
		case r.Header.Get("Authorization") != "Bearer "+Token:
			refuse(w, http.StatusUnauthorized, "Unauthorized", "Unauthorized")
		case code != 0:
			refuse(w, code, "OnPurpose", "refused on purpose")
		default:
			next(w, r)
		}
	}
}

var (
	podName    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`)
)

// at reads a path of an object.
func at(object any, path ...any) any {
	for _, key := range path {
		switch k := key.(type) {
		case string:
			m, _ := object.(map[string]any)
			object = m[k]
		case int:
			l, _ := object.([]any)
			if k >= len(l) {
				return nil
			}
			object = l[k]
		}
	}
	return object
}

// check refuses what a server would, and what is not closed.
func check(object map[string]any) error {
	name, _ := at(object, "metadata", "name").(string)
	if len(name) > 253 || !podName.MatchString(name) || object["kind"] != "Pod" || object["apiVersion"] != "v1" {
		return fmt.Errorf("metadata.name: invalid value %q", name)
	}
	labels, _ := at(object, "metadata", "labels").(map[string]any)
	for key, value := range labels {
		if text, ok := value.(string); !ok || len(text) > 63 || !labelValue.MatchString(text) {
			return fmt.Errorf("metadata.labels: %s: invalid value %v", key, value)
		}
	}
	sb := []any{"spec", "containers", 0}
	for path, want := range map[string]any{
		"spec automountServiceAccountToken": false, "spec enableServiceLinks": false, "spec restartPolicy": "Never",
		"spec securityContext runAsNonRoot": true, "spec securityContext seccompProfile type": "RuntimeDefault",
	} {
		keys := []any{}
		for _, key := range strings.Fields(path) {
			keys = append(keys, key)
		}
		if got := at(object, keys...); got != want {
			return fmt.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
	isolation := at(object, append(sb, "securityContext")...)
	if at(isolation, "allowPrivilegeEscalation") != false || at(isolation, "privileged") != false || at(isolation,
		"readOnlyRootFilesystem") != true || at(isolation, "capabilities", "drop", 0) != "ALL" {
		return errors.New("the container is not closed")
	}
	if user, _ := at(object, "spec", "securityContext", "runAsUser").(float64); user <= 0 {
		return errors.New("the container is root")
	}
	if life, _ := at(object, "spec", "activeDeadlineSeconds").(float64); life <= 0 {
		return errors.New("the pod lives for ever")
	}
	return nil
}

func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	var object map[string]any
	if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
		refuse(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	if err := check(object); err != nil {
		refuse(w, http.StatusUnprocessableEntity, "Invalid", err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.run(object); err != nil {
		refuse(w, http.StatusInternalServerError, "InternalError", err.Error())
		return
	}
	reply(w, http.StatusCreated, object)
}

// run starts a pod. The caller holds the lock.
func (s *Server) run(object map[string]any) error {
	m, err := mirrortest.New(s.dir)
	if err != nil {
		return err
	}
	p := &pod{object: object, machine: m, labels: map[string]string{}}
	labels, _ := at(object, "metadata", "labels").(map[string]any)
	for key, value := range labels {
		p.labels[key] = fmt.Sprint(value)
	}
	s.pods[fmt.Sprint(meta(object)["name"])] = p
	return nil
}

// status is how far a pod has come.
func (s *Server) status(p *pod) map[string]any {
	p.looks++
	ready := p.looks > 2
	waiting := map[string]any{"reason": "ContainerCreating"}
	phase := "Pending"
	switch {
	case p.evicted != "" && ready: // a node says it late
		return map[string]any{"phase": "Failed", "reason": "Evicted", "message": p.evicted}
	case s.faults.Unschedulable:
		return map[string]any{"phase": phase, "conditions": []any{map[string]any{"type": "PodScheduled", "status": "False",
			"reason": "Unschedulable", "message": "0/3 nodes are available"}}}
	case at(p.object, "spec", "containers", 0, "image") != Image:
		ready = false
		if p.looks > 1 {
			waiting = map[string]any{"reason": "ErrImagePull", "message": "not found"}
		}
	}
	state := map[string]any{"waiting": waiting}
	if ready {
		phase, state = "Running", map[string]any{"running": map[string]any{}}
	}
	return map[string]any{"phase": phase, "containerStatuses": []any{map[string]any{"name": "box", "ready": ready,
		"state": state}}}
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := r.PathValue("name")
	p := s.pods[name]
	if p == nil {
		refuse(w, http.StatusNotFound, "NotFound", fmt.Sprintf("pods %q not found", name))
		return
	}
	object := map[string]any{}
	for k, v := range p.object {
		object[k] = v
	}
	object["status"] = s.status(p)
	reply(w, http.StatusOK, object)
	if p.ending && p.looks > 2 {
		delete(s.pods, name)
	}
}

const pageSize = 2

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	key, value, _ := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name, p := range s.pods {
		if (key == "" || p.labels[key] == value) && name > r.URL.Query().Get("continue") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	next := ""
	if len(names) > pageSize {
		names = names[:pageSize]
		next = names[pageSize-1]
	}
	items := []any{}
	for _, name := range names {
		items = append(items, s.pods[name].object)
	}
	reply(w, http.StatusOK, map[string]any{"kind": "PodList", "metadata": map[string]any{"continue": next},
		"items": items})
}

func (s *Server) remove(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	grace, err := strconv.Atoi(r.URL.Query().Get("gracePeriodSeconds"))
	s.mu.Lock()
	p := s.pods[name]
	s.mu.Unlock()
	switch {
	case p == nil:
		refuse(w, http.StatusNotFound, "NotFound", fmt.Sprintf("pods %q not found", name))
		return
	case err != nil || grace <= 0:
		refuse(w, http.StatusBadRequest, "BadRequest", "a pod that is deleted by force may still run")
		return
	}
	_ = p.machine.End(context.Background()) // what is left is seen by the leash of the exam
	s.mu.Lock()
	defer s.mu.Unlock()
	p.ending, p.looks = true, 0
	reply(w, http.StatusOK, p.object)
}
