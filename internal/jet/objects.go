package jet

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/nats-io/nats.go/jetstream"
)

// PutObject stores an object in a bucket of others, which must exist, in place of one of that name. sha256 is its
// digest in hex where it is known: an object of that name and digest is left as it is.
func (m Messages) PutObject(ctx context.Context, bucket, name, sha256 string, content io.Reader) error {
	if err := m.c.Ready(ctx); err != nil {
		return err
	}
	store, err := m.c.js.ObjectStore(ctx, bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return fmt.Errorf("the server of the messages has no bucket of objects %s: nats object add %s", bucket, bucket)
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", bucket, err)
	}
	if sum, err := hex.DecodeString(sha256); err == nil && sha256 != "" {
		there, err := store.GetInfo(ctx, name)
		if err == nil && there.Digest == objectDigest(sum) {
			return nil
		}
		if err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
			return fmt.Errorf("object %s of %s: %w", name, bucket, err)
		}
	}
	if _, err := store.Put(ctx, jetstream.ObjectMeta{Name: name}, content); err != nil {
		return fmt.Errorf("store object %s in %s: %w", name, bucket, err)
	}
	return nil
}
