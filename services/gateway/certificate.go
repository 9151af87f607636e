package gateway

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// Certificate of the gateway, from two files, which are read again when they change.
type Certificate struct {
	cert, key string
	failed    func(error)

	mu sync.Mutex
	// Guarded by mu: what was read, of which files, and when they were looked at last.
	now    *tls.Certificate
	of     [2]fs.FileInfo
	looked time.Time
}

// certEvery is how often the files are looked at, at most.
const certEvery = time.Second

// LoadCertificate reads a certificate with its chain, and its key, in PEM. failed is told when the files cannot be read
// later on; the certificate that was read last stays.
func LoadCertificate(cert, key string, failed func(error)) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, failed: failed}
	if err := c.read(); err != nil {
		return nil, err
	}
	return c, nil
}

// TLS is the configuration with the certificate as it is at each connection. HTTP/2 is left out: consoles need an
// upgrade to WebSocket, which it has not.
func (c *Certificate) TLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil }}
}

// current is the certificate at the moment.
func (c *Certificate) current() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) >= certEvery {
		if err := c.read(); err != nil {
			c.failed(err)
		}
	}
	return c.now
}

// read reads the files if they are others than before, or were written to. Half of a change, as between two renames,
// is an error, after which they are read again. The lock is held, or no one else has c yet.
func (c *Certificate) read() error {
	c.looked = time.Now()
	cert, err := os.Stat(c.cert)
	key, errKey := os.Stat(c.key)
	if err := errors.Join(err, errKey); err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	if c.now != nil && same(cert, c.of[0]) && same(key, c.of[1]) {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("certificate %s with the key %s: %w", c.cert, c.key, err)
	}
	c.now, c.of = &pair, [2]fs.FileInfo{cert, key}
	return nil
}

func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
