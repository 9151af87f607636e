package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// lifetime of an authority; that of a call is shorter.
const lifetime = 24 * time.Hour

// authority certifies hosts with a credential for one Session. Its key is in memory alone, and its certificate says for
// which names it is good.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	dir  string // has bundle.pem
	mu   sync.Mutex
	// leaves by name, guarded by mu.
	leaves map[string]*tls.Certificate
}

func newAuthority(names []string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: serial(), Subject: pkix.Name{CommonName: "inspan sandbox"},
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: names}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	a := &authority{key: key, leaves: map[string]*tls.Certificate{}}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return a, a.write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}

// systemBundles are where systems keep the certificates that they trust.
func systemBundles() []string {
	return []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
		"/etc/ssl/cert.pem"}
}

// write makes a bundle of the machine's own authorities and this one.
func (a *authority) write(own []byte) (err error) {
	for _, at := range systemBundles() {
		if system, err := os.ReadFile(at); err == nil {
			own = append(own, system...)
			break
		}
	}
	if a.dir, err = os.MkdirTemp("", "inspan-trust-"); err != nil {
		return fmt.Errorf("certificates of the sandbox: %w", err)
	}
	if err = os.WriteFile(a.bundle(), own, 0o444); err != nil {
		a.remove()
		return fmt.Errorf("certificates of the sandbox: %w", err)
	}
	return nil
}

func (a *authority) bundle() string { return filepath.Join(a.dir, "bundle.pem") }

func (a *authority) remove() { _ = os.RemoveAll(a.dir) }

// leaf returns a certificate for a name.
func (a *authority) leaf(name string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.leaves[name]; c != nil {
		return c, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: serial(), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	c := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	a.leaves[name] = c
	return c, nil
}
