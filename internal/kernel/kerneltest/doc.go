// Package kerneltest is the exam that every form of the ports of the kernel passes: memory, NATS with one replica, NATS
// with three.
//
// Promises: an exam knows the port's contract and nothing of what is behind it. It uses run ids, keys and contents
// that no other exam uses, so one server may serve all of them, also at the same time. What it waits for it waits for
// with a limit and never by sleeping. Each subtest begins with the ids of the requirements it proves.
package kerneltest
