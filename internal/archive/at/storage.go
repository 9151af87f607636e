package at

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/inspan/inspan/internal/kernel"
)

const (
	// requestWait bounds one request with its tries.
	requestWait = 2 * time.Minute
	// tries is how often a request is made that met a fault of the network or the storage, firstWait how long it waits
	// before the second; each further wait is twice the one before.
	tries     = 4
	firstWait = 200 * time.Millisecond
	// roleWait bounds each question for the credentials of a role.
	roleWait = 5 * time.Second
	// maxError is how much of an answer that says no is read, in bytes.
	maxError = 16 << 10
)

// storage speaks the REST interface of S3 for one bucket. Requests are signed, and credentials are found, by packages
// of the client of MinIO; the whole of it is 2.7 MB of a program.
type storage struct {
	web *http.Client
	// address is that of the bucket, without a slash at its end.
	address *url.URL
	region  string
	creds   *credentials.Credentials
}

// newStorage reads the AWS_ variables.
func newStorage(bucket string) (*storage, error) {
	region := cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	address := cmp.Or(os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"))
	if address == "" && region == "" {
		return nil, errors.New("set AWS_REGION to the region of the bucket, or AWS_ENDPOINT_URL to the address of the storage")
	}
	path := "/" + bucket
	switch {
	case address == "" && !strings.Contains(bucket, "."):
		address, path = "https://"+bucket+".s3."+region+".amazonaws.com", ""
	case address == "":
		address = "https://s3." + region + ".amazonaws.com"
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" ||
		strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("AWS_ENDPOINT_URL: want https://HOST or https://HOST:PORT, and nothing behind it")
	}
	u.Path = path
	// what is signed for one address is sent to no other
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &storage{web: &http.Client{CheckRedirect: stay}, address: u,
		region: cmp.Or(region, "us-east-1"), creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{},
			&credentials.IAM{Client: &http.Client{Timeout: roleWait}, Region: region}})}, nil
}

// request is one question; key is empty where it is about the bucket.
type request struct {
	method, key string
	query       url.Values
	header      http.Header
	body        []byte
}

// reply is an answer that says yes. size is that of the file, also where its content was not asked for.
type reply struct {
	header http.Header
	body   []byte
	size   int64
}

// answer is an answer that says no.
type answer struct {
	status  int
	Code    string
	Message string
}

func (a *answer) Error() string {
	return fmt.Sprintf("%d %s: %.300s", a.status, cmp.Or(a.Code, http.StatusText(a.status)), a.Message)
}

// none reports whether it says that there is no such file. An answer to HEAD has no words. Some servers say 404 of
// other things, too.
func (a *answer) none() bool {
	return a.status == http.StatusNotFound && (a.Code == "NoSuchKey" || a.Code == "")
}

// again reports whether it may be otherwise at the next try.
func (a *answer) again() bool {
	return a.status >= http.StatusInternalServerError || a.status == http.StatusTooManyRequests ||
		a.status == http.StatusRequestTimeout
}

// do makes a request until it is answered. A write may be done twice by that: over a version the second one fails.
func (s *storage) do(ctx context.Context, r request) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	for try, wait := 1, firstWait; ; try, wait = try+1, 2*wait {
		got, err := s.once(ctx, r)
		no, answered := errors.AsType[*answer](err)
		if err == nil || answered && !no.again() || try == tries || ctx.Err() != nil {
			return got, err
		}
		if err := kernel.Sleep(ctx, wait); err != nil {
			return got, err
		}
	}
}

func (s *storage) once(ctx context.Context, r request) (reply, error) {
	u := *s.address
	if r.key != "" {
		u.Path += "/" + r.key
	} else if u.Path == "" {
		u.Path = "/"
	}
	u.RawPath, u.RawQuery = s3utils.EncodePath(u.Path), s3utils.QueryEncode(r.query)
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), bytes.NewReader(r.body))
	if err != nil {
		return reply{}, err
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	sum := sha256.Sum256(r.body)
	req.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	id, err := s.creds.GetWithContext(&credentials.CredContext{Client: s.web})
	if err != nil {
		return reply{}, fmt.Errorf("credentials of the storage: %w", err)
	}
	if id.AccessKeyID == "" {
		return reply{}, &answer{status: http.StatusUnauthorized, Code: "there are no credentials"}
	}
	req = signer.SignV4(*req, id.AccessKeyID, id.SecretAccessKey, id.SessionToken, s.region)
	res, err := s.web.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer drain(res.Body)
	if res.StatusCode/100 != 2 {
		no := &answer{status: res.StatusCode}
		b, _ := io.ReadAll(io.LimitReader(res.Body, maxError))
		_ = xml.Unmarshal(b, no) // of a proxy it may be anything
		return reply{}, no
	}
	got := reply{header: res.Header, size: res.ContentLength}
	got.body, err = io.ReadAll(res.Body)
	return got, err
}
