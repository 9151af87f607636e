package egress_test

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/binary"
)

// echList is a list of one configuration for encrypted greetings (RFC 9849) whose outer name is public.
func echList(public string) []byte {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	var c []byte
	c = append(c, 1)                           // id
	c = binary.BigEndian.AppendUint16(c, 0x20) // X25519
	c = binary.BigEndian.AppendUint16(c, 32)
	c = append(c, key.PublicKey().Bytes()...)
	c = binary.BigEndian.AppendUint16(c, 4) // one suite: HKDF-SHA256, AES-128-GCM
	c = binary.BigEndian.AppendUint16(c, 1)
	c = binary.BigEndian.AppendUint16(c, 1)
	c = append(c, 32, byte(len(public)))
	c = append(c, public...)
	c = binary.BigEndian.AppendUint16(c, 0)
	one := binary.BigEndian.AppendUint16(nil, 0xfe0d)
	one = binary.BigEndian.AppendUint16(one, uint16(len(c)))
	one = append(one, c...)
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(one))), one...)
}
