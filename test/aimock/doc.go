// Package aimock drives the adapters of models against @copilotkit/aimock, a mock of the providers' APIs that others
// wrote: the local servers of the exam (internal/llm/llmtest) speak the wire formats as we understood them, this one as
// somebody else did.
//
// Promises: it is opt-in (make aimock), since it needs node and takes one package from npm, at a fixed version and
// without running its scripts. Where node or npm is missing it fails and says so. Everything talks to 127.0.0.1.
package aimock
