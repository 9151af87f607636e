package docker

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/inspan/inspan/internal/sandbox/local"
)

// maxStderr is how much of what the helper or the engine complains of is kept.
const maxStderr = 2 << 10

// parted reads the standard output of a stream in which the engine marks each piece as that or as standard error, and
// keeps the beginning of the latter.
type parted struct {
	r    io.Reader
	left uint32 // of the piece

	other local.Head
}

func part(r io.Reader) *parted { return &parted{r: r, other: local.Head{Most: maxStderr}} }

func (p *parted) Read(to []byte) (int, error) {
	for p.left == 0 {
		var h [8]byte // kind, 3 bytes of nothing, length
		if _, err := io.ReadFull(p.r, h[:]); err != nil {
			return 0, err
		}
		n := binary.BigEndian.Uint32(h[4:])
		switch h[0] {
		case 0, 1:
			p.left = n
		case 2, 3: // standard error, and what the engine itself says
			if _, err := io.CopyN(&p.other, p.r, int64(n)); err != nil {
				return 0, err
			}
		default:
			return 0, fmt.Errorf("the engine's stream holds a piece of kind %d", h[0])
		}
	}
	n, err := p.r.Read(to[:min(len(to), int(p.left))])
	p.left -= uint32(n)
	return n, err
}
