package capture

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// maxTranscript is the most bytes of an object with the files of a session, once it is unpacked.
const maxTranscript = 64 << 20

// Keep stores the files of a session of a program, without secrets.
func (k Results) Keep(ctx context.Context, files []tool.InnerFile) (events.Ref, error) {
	masked := slices.Clone(files)
	for i := range masked {
		masked[i].Data = []byte(k.Mask(string(masked[i].Data)))
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := errors.Join(json.NewEncoder(z).Encode(masked), z.Close()); err != nil {
		return events.Ref{}, fmt.Errorf("pack the files of a session: %w", err)
	}
	ref, err := k.Blobs.Put(ctx, "transcript", b.Bytes())
	if err != nil {
		return ref, fmt.Errorf("store the files of a session: %w", err)
	}
	return ref, nil
}

// Kept returns the files of a session that were stored.
func (k Results) Kept(ctx context.Context, ref events.Ref) ([]tool.InnerFile, error) {
	b, err := k.Blobs.Get(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("the files of a session: %w", err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("the files of a session: %w", err)
	}
	var files []tool.InnerFile
	if err := json.NewDecoder(io.LimitReader(z, maxTranscript)).Decode(&files); err != nil {
		return nil, fmt.Errorf("the files of a session: %w", err)
	}
	return files, nil
}
