package jet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// ErrDamagedObject means that stored bytes are not those of their digest.
var ErrDamagedObject = kernel.ErrDamagedObject

// blobs keeps objects by content, in the form of the NATS object store, so that every NATS client can read them. It
// writes them itself: the library would replace an object that is there, and would need the right to purge. Here the
// first description of an object stands, and nothing is ever replaced.
type blobs struct {
	c *Conn
	// bucket is that of the object store, and scope what the names of objects begin with.
	bucket, scope string
	// headers stand in the descriptions of what is put.
	headers nats.Header
}

var _ kernel.Blobs = blobs{}

// description is the object store's metadata of one object.
type description struct {
	Name    string            `json:"name"`
	Headers nats.Header       `json:"headers,omitempty"`
	Options descriptionOption `json:"options"`
	Bucket  string            `json:"bucket"`
	NUID    string            `json:"nuid"`
	Size    uint64            `json:"size"`
	ModTime time.Time         `json:"mtime"`
	Chunks  uint32            `json:"chunks"`
	Digest  string            `json:"digest"`
}

type descriptionOption struct {
	MaxChunk uint32 `json:"max_chunk_size"`
}

func (b blobs) name(digest string) string { return b.scope + "." + digest }

func (b blobs) metaSubject(digest string) string {
	return "$O." + b.bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(b.name(digest)))
}

func (b blobs) chunkSubject(nuid string) string { return "$O." + b.bucket + ".C." + nuid }

func (b blobs) stream() string { return "OBJ_" + b.bucket }

// Put implements kernel.Blobs. Above topology.MaxObject bytes it returns kernel.ErrTooLarge.
func (b blobs) Put(ctx context.Context, kind string, data []byte) (events.Ref, error) {
	sum := sha256.Sum256(data)
	ref := events.Ref{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(data)), Type: kind}
	if len(data) > topology.MaxObject {
		return events.Ref{}, fmt.Errorf("put object of %d bytes, the limit is %d: %w", len(data), topology.MaxObject,
			kernel.ErrTooLarge)
	}
	there, err := b.describe(ctx, ref.SHA256)
	if err == nil && len(there) > 0 {
		return ref, nil
	}
	if err != nil && !errors.Is(err, kernel.ErrNotFound) {
		return events.Ref{}, fmt.Errorf("put object %s: %w", ref.SHA256, err)
	}
	if err := b.store(ctx, ref, sum, data); err != nil {
		return events.Ref{}, fmt.Errorf("put object %s: %w", ref.SHA256, err)
	}
	return ref, nil
}

// store writes the parts, then the description, which makes the object exist.
func (b blobs) store(ctx context.Context, ref events.Ref, sum [32]byte, data []byte) error {
	d := description{Name: b.name(ref.SHA256), Bucket: b.bucket, NUID: nats.NewInbox()[len("_INBOX."):],
		Size:    uint64(len(data)),
		ModTime: time.Now().UTC(), Options: descriptionOption{MaxChunk: topology.ChunkBytes},
		Digest: objectDigest(sum[:])}
	d.Headers = maps.Clone(b.headers)
	if ref.Type != "" {
		if d.Headers == nil {
			d.Headers = nats.Header{}
		}
		d.Headers.Set(headerContentType, ref.Type)
	}
	for rest := data; len(rest) > 0; d.Chunks++ {
		part := rest[:min(len(rest), topology.ChunkBytes)]
		rest = rest[len(part):]
		if _, err := b.c.publish(ctx, &nats.Msg{Subject: b.chunkSubject(d.NUID), Data: part}, b.stream()); err != nil {
			return fmt.Errorf("part %d: %w", d.Chunks+1, fullness(err))
		}
	}
	body, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode description: %w", err)
	}
	m := &nats.Msg{Subject: b.metaSubject(ref.SHA256), Data: body, Header: nats.Header{headerExpect: {strconv.Itoa(0)}}}
	for {
		_, err := b.c.publish(ctx, m, b.stream())
		switch code(err) {
		case codeWrongLast:
			return nil // somebody else has just put the same content
		case codeWrongLastNoSeq: // somebody else is about to
			if err := kernel.Sleep(ctx, 5*time.Millisecond); err != nil {
				return err
			}
			continue
		}
		return fullness(err)
	}
}

// fullness names the refusal of a bucket that is full.
func fullness(err error) error {
	if err != nil && outcome(err, 0).Outcome == kernel.Full {
		return fmt.Errorf("%w: %w", kernel.ErrFull, err)
	}
	return err
}

// describe returns the descriptions of an object, the first one first; there is more than one only where somebody
// went past this package. A replica that knows none may be behind, so then the leader is asked.
func (b blobs) describe(ctx context.Context, digest string) ([]description, error) {
	page, err := b.c.direct(ctx, b.stream(), directRequest{Seq: 1, NextFor: b.metaSubject(digest), Batch: 8})
	if err != nil {
		return nil, err
	}
	var bodies [][]byte
	for _, m := range page.messages {
		bodies = append(bodies, m.Data)
	}
	if len(bodies) == 0 {
		last, err := b.c.lastFromLeader(ctx, b.stream(), b.metaSubject(digest))
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, last.Data)
	}
	var all []description
	for _, body := range bodies {
		var d description
		if err := json.Unmarshal(body, &d); err != nil || !validNUID(d.NUID) {
			continue // not a description; another may be sound
		}
		all = append(all, d)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: no description can be read", ErrDamagedObject)
	}
	return all, nil
}

func validNUID(nuid string) bool { return events.ValidID(nuid) }

// Get implements kernel.Blobs. Bytes that do not have the digest and size of the reference are ErrDamagedObject.
func (b blobs) Get(ctx context.Context, ref events.Ref) ([]byte, error) {
	want, err := hex.DecodeString(ref.SHA256)
	if err != nil || len(want) != sha256.Size {
		return nil, fmt.Errorf("get object: %.80q is not a SHA-256 digest in hex", ref.SHA256)
	}
	if ref.Size < 0 || ref.Size > topology.MaxObject {
		return nil, fmt.Errorf("get object %s of %d bytes, the limit is %d: %w", ref.SHA256, ref.Size, topology.MaxObject,
			kernel.ErrTooLarge)
	}
	var last error
	for try := range 5 {
		all, err := b.describe(ctx, ref.SHA256)
		if err != nil {
			return nil, fmt.Errorf("get object %s: %w", ref.SHA256, err)
		}
		behind := false
		for _, d := range all {
			data, complete, err := b.parts(ctx, d.NUID, ref.Size)
			if err != nil {
				return nil, fmt.Errorf("get object %s: %w", ref.SHA256, err)
			}
			sum := sha256.Sum256(data)
			if int64(len(data)) == ref.Size && bytes.Equal(sum[:], want) {
				return data, nil
			}
			behind = behind || !complete
			last = fmt.Errorf("get object %s: %w: %d bytes with another digest, want %d", ref.SHA256, ErrDamagedObject,
				len(data), ref.Size)
		}
		if !behind {
			break
		}
		// Parts are missing: the replica that answered may not have them yet.
		if err := kernel.Sleep(ctx, time.Duration(10<<try)*time.Millisecond); err != nil {
			return nil, fmt.Errorf("get object %s: %w", ref.SHA256, err)
		}
	}
	return nil, last
}

// parts reads the parts of an object, and stops soon after the size that it must have. complete is false where bytes
// are missing.
func (b blobs) parts(ctx context.Context, nuid string, size int64) (data []byte, complete bool, err error) {
	data = make([]byte, 0, size)
	for after := uint64(0); ; {
		page, err := b.c.direct(ctx, b.stream(), directRequest{Seq: after + 1, NextFor: b.chunkSubject(nuid), Batch: 64,
			MaxBytes: 8 << 20})
		if err != nil {
			return nil, false, err
		}
		for _, m := range page.messages {
			data = append(data, m.Data...)
			after = m.seq
		}
		if len(page.messages) == 0 || page.pending == 0 || int64(len(data)) > size {
			return data, int64(len(data)) >= size, nil
		}
	}
}

// objectDigest is a SHA-256 as the description of an object has it.
func objectDigest(sum []byte) string { return "SHA-256=" + base64.URLEncoding.EncodeToString(sum) }
