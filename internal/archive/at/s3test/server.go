// Package s3test has storage for tests: a server of the part of S3 that archives use, in this process.
//
// It is no proof that other servers understand what is sent: make s3 runs the same tests against one of others.
package s3test

import (
	"crypto/md5" //nolint:gosec // an ETag is one
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Bucket is the one that a server has.
const Bucket = "vault"

// key is the one identity that a server knows.
const key = "ADA"

// Server is storage in this process.
type Server struct {
	mu sync.Mutex
	// files by name, asked what was asked for; both are guarded by mu.
	files map[string]file
	asked []string
	// down says that nothing is answered well, careless that conditions are ignored; both are guarded by mu.
	down, careless bool
}

type file struct {
	data []byte
	tag  string
	at   time.Time
}

// Serve starts a server and has the AWS_ variables of this process name it. It returns where an archive in it is; of a
// server of others, which INSPAN_TEST_S3 names, that is in a folder of its own, and the server is nil.
func Serve(t *testing.T) (s *Server, where string) {
	t.Helper()
	if bucket := os.Getenv("INSPAN_TEST_S3"); bucket != "" {
		return nil, fmt.Sprintf("s3://%s/%s-%d", bucket, strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")), time.Now().UnixNano())
	}
	s = &Server{files: map[string]file{}}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": web.URL, "AWS_ENDPOINT_URL_S3": "", "AWS_REGION": "eu-central-1",
		"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": "lovelace", "AWS_SESSION_TOKEN": ""} {
		t.Setenv(name, value)
	}
	return s, "s3://" + Bucket + "/inspan/lab"
}

// Down has the server fail each request, or not any more.
func (s *Server) Down(is bool) { s.set(func() { s.down = is }) }

// Careless has the server ignore conditions.
func (s *Server) Careless() { s.set(func() { s.careless = true }) }

// Age makes all files older.
func (s *Server) Age(by time.Duration) {
	s.set(func() {
		for name, f := range s.files {
			f.at = f.at.Add(-by)
			s.files[name] = f
		}
	})
}

func (s *Server) set(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// Files are the names of what is stored.
func (s *Server) Files() (all []string) {
	s.set(func() {
		for name := range s.files {
			all = append(all, name)
		}
	})
	slices.Sort(all)
	return all
}

// Asked returns the requests since it was last called.
func (s *Server) Asked() (all []string) {
	s.set(func() { all, s.asked = s.asked, nil })
	return all
}

type failure struct {
	XMLName xml.Name `xml:"Error"`
	Code    string
}

func fail(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	_ = xml.NewEncoder(w).Encode(failure{Code: code})
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		fail(w, http.StatusBadRequest, "IncompleteBody")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	bucket, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case s.down:
		fail(w, http.StatusBadRequest, "Broken") // which a client does not try again by itself
	case !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential="+key+"/"):
		fail(w, http.StatusNotFound, "InvalidAccessKeyId") // as some servers say it
	case r.Header.Get("X-Amz-Content-Sha256") != digest(body):
		fail(w, http.StatusBadRequest, "XAmzContentSHA256Mismatch")
	case bucket != Bucket:
		fail(w, http.StatusNotFound, "NoSuchBucket")
	case name == "":
		s.list(w, r)
	case r.Method == http.MethodPut:
		s.put(w, r, name, body)
	case r.Method == http.MethodDelete:
		delete(s.files, name)
		w.WriteHeader(http.StatusNoContent)
	default:
		s.get(w, r, name)
	}
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func (s *Server) put(w http.ResponseWriter, r *http.Request, name string, body []byte) {
	was, there := s.files[name]
	want := r.Header.Get("If-Match")
	switch {
	case s.careless:
	case r.Header.Get("If-None-Match") == "*" && there, want != "" && there && strings.Trim(want, `"`) != was.tag:
		fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	case want != "" && !there:
		fail(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	sum := md5.Sum(body) //nolint:gosec // an ETag is one
	f := file{data: body, tag: hex.EncodeToString(sum[:]), at: time.Now()}
	s.files[name] = f
	w.Header().Set("ETag", `"`+f.tag+`"`)
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, name string) {
	f, there := s.files[name]
	if !there {
		fail(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	w.Header().Set("ETag", `"`+f.tag+`"`)
	w.Header().Set("Last-Modified", f.at.UTC().Format(http.TimeFormat))
	w.Header().Set("Content-Length", fmt.Sprint(len(f.data)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(f.data)
	}
}

// page is how many names a listing has at most: few, so that tests have several pages.
const page = 3

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	type content struct {
		Key          string
		LastModified string
		ETag         string
		Size         int
	}
	var answer struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		Name                  string
		IsTruncated           bool
		NextContinuationToken string
		Contents              []content
	}
	answer.Name = Bucket
	prefix, after := r.URL.Query().Get("prefix"), r.URL.Query().Get("continuation-token")
	var all []string
	for name := range s.files {
		if strings.HasPrefix(name, prefix) && name > after {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	if len(all) > page {
		all = all[:page]
		answer.IsTruncated, answer.NextContinuationToken = true, all[page-1]
	}
	for _, name := range all {
		f := s.files[name]
		answer.Contents = append(answer.Contents, content{Key: name, ETag: `"` + f.tag + `"`, Size: len(f.data),
			LastModified: f.at.UTC().Format(time.RFC3339Nano)})
	}
	_ = xml.NewEncoder(w).Encode(answer)
}
