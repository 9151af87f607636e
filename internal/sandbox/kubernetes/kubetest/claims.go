package kubetest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Pool is the one warm pool of a server that Warm was called on.
const Pool = "tools"

// claimPath is where agent-sandbox keeps claims.
const claimPath = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/{namespace}/sandboxclaims"

type claim struct {
	object map[string]any
	looks  int // how often it was looked at since it was made or deleted
	pod    string
	ending bool
}

// Template is a pod specification that a sandbox may use, as operators write it into a SandboxTemplate.
func Template() map[string]any {
	return map[string]any{
		"automountServiceAccountToken": false,
		"securityContext": map[string]any{"runAsNonRoot": true, "runAsUser": 64123,
			"seccompProfile": map[string]any{"type": "RuntimeDefault"}},
		"containers": []any{map[string]any{"name": "tools", "image": Image,
			"resources": map[string]any{"limits": map[string]any{"cpu": "1500m", "memory": "64Mi",
				"ephemeral-storage": "1Gi"}},
			"securityContext": map[string]any{"allowPrivilegeEscalation": false,
				"capabilities": map[string]any{"drop": []any{"ALL"}}}}},
	}
}

// Warm installs agent-sandbox with Pool, whose pods are made from a template.
func (s *Server) Warm(template map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pool = template
}

// Claims are the names of the claims that are there.
func (s *Server) Claims() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.claims))
}

// Claim is what was asked for.
func (s *Server) Claim(name string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims[name].object
}

func (s *Server) serveClaims(mux *http.ServeMux) {
	known := func(next http.HandlerFunc) http.HandlerFunc {
		return s.guard(func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			there := s.pool != nil
			s.mu.Unlock()
			if !there {
				http.Error(w, "404 page not found", http.StatusNotFound)
				return
			}
			next(w, r)
		})
	}
	mux.HandleFunc("POST "+claimPath, known(s.createClaim))
	mux.HandleFunc("GET "+claimPath, known(s.listClaims))
	mux.HandleFunc("GET "+claimPath+"/{name}", known(s.getClaim))
	mux.HandleFunc("DELETE "+claimPath+"/{name}", known(s.removeClaim))
}

// checkClaim refuses what the definition of the resource and its controller do.
func checkClaim(object map[string]any) error {
	if name, _ := at(object, "metadata", "name").(string); len(name) > 253 || !podName.MatchString(name) {
		return fmt.Errorf("metadata.name: invalid value %q", name)
	}
	if object["kind"] != "SandboxClaim" || object["apiVersion"] != "extensions.agents.x-k8s.io/v1beta1" {
		return fmt.Errorf("not a claim: %v %v", object["apiVersion"], object["kind"])
	}
	if at(object, "spec", "warmPoolRef", "name") == nil {
		return fmt.Errorf("spec.warmPoolRef.name: required value")
	}
	end, _ := at(object, "spec", "lifecycle", "shutdownTime").(string)
	if when, err := time.Parse(time.RFC3339, end); err != nil || time.Until(when) <= 0 || at(object, "spec", "lifecycle",
		"shutdownPolicy") != "DeleteForeground" {
		return fmt.Errorf("spec.lifecycle: the claim lives for ever: %q", end)
	}
	labels, _ := at(object, "spec", "additionalPodMetadata", "labels").(map[string]any)
	for key := range labels {
		if domain, _, _ := strings.Cut(key, "/"); domain != "sandbox.users.io" && !strings.HasSuffix(domain,
			".sandbox.users.io") {
			return fmt.Errorf("label domain %q is not in the allowlist", domain)
		}
	}
	return nil
}

func (s *Server) createClaim(w http.ResponseWriter, r *http.Request) {
	var object map[string]any
	err := json.NewDecoder(r.Body).Decode(&object)
	if err == nil {
		err = checkClaim(object)
	}
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, "Invalid", err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := fmt.Sprint(meta(object)["name"])
	s.claims[name] = &claim{object: object}
	reply(w, http.StatusCreated, object)
}

// grant is what the controller does: a pod after the second look, its labels after the third. The caller holds the
// lock.
func (s *Server) grant(name string, c *claim) (map[string]any, error) {
	c.looks++
	not := func(reason, message string) map[string]any {
		return map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False", "reason": reason,
			"message": message}}}
	}
	switch {
	case at(c.object, "spec", "warmPoolRef", "name") != Pool:
		return not("WarmPoolNotFound", "the warm pool is not there"), nil
	case s.faults.Ungranted:
		return not("SandboxNotReady", "Pod is Pending: 0/3 nodes are available"), nil
	case c.looks < 2:
		return map[string]any{}, nil
	case c.looks == 2:
		c.pod = Pool + "-" + strings.TrimPrefix(name, "inspan-")
		owner := []any{map[string]any{"kind": "Sandbox", "name": c.pod, "controller": true}}
		metadata := map[string]any{"name": c.pod, "labels": map[string]any{}, "annotations": map[string]any{},
			"ownerReferences": owner}
		if err := s.run(map[string]any{"kind": "Pod", "metadata": metadata, "spec": s.pool}); err != nil {
			return nil, err
		}
	case c.looks == 3:
		p := s.pods[c.pod]
		more, _ := at(c.object, "spec", "additionalPodMetadata", "labels").(map[string]any)
		for key, value := range more {
			p.labels[key] = fmt.Sprint(value)
			meta(p.object)["labels"].(map[string]any)[key] = value
		}
	}
	return map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True",
		"reason": "DependenciesReady", "message": ""}}, "sandbox": map[string]any{"name": c.pod}}, nil
}

func (s *Server) getClaim(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := r.PathValue("name")
	c := s.claims[name]
	if c == nil {
		refuse(w, http.StatusNotFound, "NotFound", fmt.Sprintf("sandboxclaims %q not found", name))
		return
	}
	if c.ending {
		// It waits for its pod, which takes a while.
		if c.looks++; c.looks > 2 {
			delete(s.pods, c.pod)
			delete(s.claims, name)
		}
		reply(w, http.StatusOK, c.object)
		return
	}
	status, err := s.grant(name, c)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "InternalError", err.Error())
		return
	}
	object := maps.Clone(c.object)
	object["status"] = status
	reply(w, http.StatusOK, object)
}

func (s *Server) listClaims(w http.ResponseWriter, r *http.Request) {
	key, value, _ := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
	s.mu.Lock()
	defer s.mu.Unlock()
	items := []any{}
	for _, name := range slices.Sorted(maps.Keys(s.claims)) {
		if at(s.claims[name].object, "metadata", "labels", key) == value {
			items = append(items, s.claims[name].object)
		}
	}
	reply(w, http.StatusOK, map[string]any{"kind": "SandboxClaimList", "metadata": map[string]any{}, "items": items})
}

func (s *Server) removeClaim(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	c := s.claims[r.PathValue("name")]
	var p *pod
	if c != nil {
		p = s.pods[c.pod]
	}
	s.mu.Unlock()
	switch {
	case c == nil:
		refuse(w, http.StatusNotFound, "NotFound", "the claim is not there")
		return
	case r.URL.Query().Get("propagationPolicy") != "Foreground":
		refuse(w, http.StatusBadRequest, "BadRequest", "a claim that does not wait for its pod leaves it running")
		return
	}
	if p != nil {
		_ = p.machine.End(context.Background()) // what is left is seen by the leash of the exam
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.ending, c.looks = true, 0
	if p != nil {
		p.ending = true
	}
	reply(w, http.StatusOK, c.object)
}
