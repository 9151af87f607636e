package at

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/archive"
)

// bucket is a place in a bucket, below a prefix that is empty or ends in "/".
type bucket struct {
	storage      *storage
	name, prefix string
}

var _ archive.Place = bucket{}

// newBucket reads s3://BUCKET/PREFIX.
func newBucket(where string) (bucket, error) {
	name, prefix, _ := strings.Cut(strings.TrimPrefix(where, scheme), "/")
	prefix = strings.Trim(prefix, "/")
	if name == "" || strings.ContainsAny(where, "?#@% ") || prefix != "" && !fs.ValidPath(prefix) {
		return bucket{}, fmt.Errorf("archive %.200q: want s3://BUCKET or s3://BUCKET/PREFIX; address, region and "+
			"credentials come from AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", where)
	}
	if prefix != "" {
		prefix += "/"
	}
	s, err := newStorage(name)
	if err != nil {
		return bucket{}, err
	}
	return bucket{storage: s, name: name, prefix: prefix}, nil
}

// Read implements archive.Place.
func (b bucket) Read(ctx context.Context, name string) ([]byte, archive.Version, error) {
	got, err := b.storage.do(ctx, request{method: http.MethodGet, key: b.prefix + name})
	if err != nil {
		return nil, "", b.failed("read", name, err)
	}
	return got.body, archive.Version(got.header.Get("ETag")), nil
}

// Write implements archive.Place.
func (b bucket) Write(ctx context.Context, name string, data []byte, over archive.Version) (archive.Version, error) {
	r := request{method: http.MethodPut, key: b.prefix + name, header: http.Header{}, body: data}
	switch over {
	case archive.Any:
	case "":
		r.header.Set("If-None-Match", "*")
	default:
		r.header.Set("If-Match", string(over))
	}
	got, err := b.storage.do(ctx, r)
	if is, ok := errors.AsType[*answer](err); ok && over != archive.Any && (is.status == http.StatusPreconditionFailed ||
		is.status == http.StatusConflict || over != "" && is.none()) {
		return "", archive.ErrChanged
	}
	if err != nil {
		return "", b.failed("write", name, err)
	}
	return archive.Version(got.header.Get("ETag")), nil
}

// Stat implements archive.Place.
func (b bucket) Stat(ctx context.Context, name string) (archive.Stat, error) {
	got, err := b.storage.do(ctx, request{method: http.MethodHead, key: b.prefix + name})
	if err != nil {
		return archive.Stat{}, b.failed("look for", name, err)
	}
	at, err := http.ParseTime(got.header.Get("Last-Modified"))
	if err != nil {
		return archive.Stat{}, b.failed("look for", name, err)
	}
	return archive.Stat{Size: got.size, Age: time.Since(at)}, nil
}

// listing is a page of an answer to ListObjectsV2.
type listing struct {
	IsTruncated           bool
	NextContinuationToken string
	Contents              []struct {
		Key          string
		Size         int64
		LastModified time.Time
	}
}

// List implements archive.Place.
func (b bucket) List(ctx context.Context, prefix string, visit func(name string, s archive.Stat) error) error {
	query := url.Values{"list-type": {"2"}, "prefix": {b.prefix + prefix}}
	for {
		got, err := b.storage.do(ctx, request{method: http.MethodGet, query: query})
		var page listing
		if err == nil {
			err = xml.Unmarshal(got.body, &page)
		}
		if err != nil {
			return b.failed("list", prefix, err)
		}
		for _, c := range page.Contents {
			s := archive.Stat{Size: c.Size, Age: time.Since(c.LastModified)}
			if err := visit(strings.TrimPrefix(c.Key, b.prefix), s); err != nil {
				return err
			}
		}
		if !page.IsTruncated || page.NextContinuationToken == "" {
			return nil
		}
		query.Set("continuation-token", page.NextContinuationToken)
	}
}

// Remove implements archive.Place.
func (b bucket) Remove(ctx context.Context, name string) error {
	_, err := b.storage.do(ctx, request{method: http.MethodDelete, key: b.prefix + name})
	if err = b.failed("remove", name, err); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Shared implements archive.Place.
func (b bucket) Shared() bool { return true }

func (b bucket) String() string { return scheme + b.name + "/" + strings.TrimSuffix(b.prefix, "/") }

// Close implements archive.Place.
func (b bucket) Close() error { return nil }

// failed says what storage answered, and what to do about it.
func (b bucket) failed(verb, name string, err error) error {
	is, ok := errors.AsType[*answer](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		return fmt.Errorf("%s %s: %w", verb, cmp.Or(name, b.name), err)
	case is.Code == "NoSuchBucket":
		return fmt.Errorf("there is no bucket %s at %s: make it, or set AWS_ENDPOINT_URL and AWS_REGION", b.name,
			b.storage.address.Host)
	case is.none():
		return fmt.Errorf("%s %s: %w", verb, name, fs.ErrNotExist)
	case is.status/100 == 3:
		return fmt.Errorf("%s %s: the bucket is elsewhere (%w): set AWS_REGION to its region", verb, name, err)
	case is.status == http.StatusForbidden, is.status == http.StatusUnauthorized, is.status == http.StatusNotFound:
		return fmt.Errorf("%s %s: storage refuses it (%w): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of an identity "+
			"that may read, write, list and delete there", verb, name, err)
	}
	return fmt.Errorf("%s %s: %w", verb, name, err)
}

// Probe implements archive.Place: whether the storage refuses to write over a file that is there when it is asked to.
// Without that two programs could take back what the other saved.
func (b bucket) Probe(ctx context.Context) error {
	const name = "inspan-archive.probe"
	if _, err := b.Write(ctx, name, []byte("probe\n"), archive.Any); err != nil {
		return err
	}
	_, err := b.Write(ctx, name, []byte("probe\n"), "")
	if errors.Is(err, archive.ErrChanged) {
		return nil
	}
	return errors.Join(err, fmt.Errorf("archive %s: this storage ignores If-None-Match, so programs cannot share an "+
		"archive in it: use storage that has conditional writes, or a folder", b))
}

// drain reads the rest of an answer, so that its connection is used again.
func drain(r io.ReadCloser) {
	_, _ = io.Copy(io.Discard, io.LimitReader(r, 64<<10))
	_ = r.Close()
}
