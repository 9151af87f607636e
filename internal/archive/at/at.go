// Package at opens archives by where they are: a folder, or a bucket of S3-compatible storage.
//
// Promises: several persisters may write to one archive in a bucket. None writes over what another wrote after it was
// read: the storage must refuse such writes, and one that does not is refused when the archive is opened. Credentials,
// address and region come from the AWS_ variables, files and instance roles that other S3 clients read, and are in no
// message.
package at

import (
	"context"
	"strings"

	"github.com/inspan/inspan/internal/archive"
)

// scheme is how the name of a bucket begins.
const scheme = "s3://"

// Open opens an archive to read it. Close must be called.
func Open(ctx context.Context, where string) (*archive.Dir, error) {
	if !strings.HasPrefix(where, scheme) {
		return archive.Open(where)
	}
	b, err := newBucket(where)
	if err != nil {
		return nil, err
	}
	return archive.OpenAt(ctx, b)
}

// Create opens an archive to write it, and makes it where there is none. One in a bucket need not be reached yet: its
// Prepare does that. Close must be called.
func Create(where string) (*archive.Dir, error) {
	if !strings.HasPrefix(where, scheme) {
		return archive.Create(where)
	}
	b, err := newBucket(where)
	if err != nil {
		return nil, err
	}
	return archive.At(b), nil
}
