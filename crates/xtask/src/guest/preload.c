/*
 * Two C library functions as the guest needs them, preloaded into its kernel and its network.
 *
 * ptrace() lets an older user-mode-linux run on a newer processor. That kernel keeps a process's
 * floating-point state in an area of fixed size, from before there were AMX tiles, and hands it to
 * the host with PTRACE_SETREGSET. A host whose processor has more state refuses the short area with
 * EFAULT, and the guest dies at its first process. So such an area is filled up with zeros to the
 * size that the host wants. Zeros are right: the area's own header says which parts it holds, and
 * what it does not hold is in its initial state. There is one buffer, because the kernel traces
 * from one thread.
 *
 * socket() makes slirp send at once. It passes a large request on in pieces, and without
 * TCP_NODELAY each piece but the first waits until the server's kernel has acknowledged the one
 * before, which that kernel puts off for 40 ms: the guest's every write would take that long.
 */
#include <elf.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static unsigned char state[1 << 16];
static size_t host_size;

static long pass_on(long request, long process, void *address, void *data)
{
	return syscall(SYS_ptrace, request, process, address, data);
}

/* What the host keeps for a process, in bytes; 0 if it does not say. */
static size_t size_of_state(long process)
{
	struct iovec all = { .iov_base = state, .iov_len = sizeof state };

	if (host_size == 0 && pass_on(PTRACE_GETREGSET, process, (void *)NT_X86_XSTATE, &all) == 0)
		host_size = all.iov_len;
	return host_size;
}

static long set_state(long process, struct iovec *given)
{
	size_t size = size_of_state(process);
	struct iovec all = { .iov_base = state, .iov_len = size };

	if (given->iov_len >= size)
		return pass_on(PTRACE_SETREGSET, process, (void *)NT_X86_XSTATE, given);
	memset(state, 0, size);
	memcpy(state, given->iov_base, given->iov_len);
	return pass_on(PTRACE_SETREGSET, process, (void *)NT_X86_XSTATE, &all);
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list arguments;
	va_start(arguments, request);
	long process = va_arg(arguments, long);
	void *address = va_arg(arguments, void *);
	void *data = va_arg(arguments, void *);
	va_end(arguments);

	switch (request) {
	case PTRACE_SETREGSET:
		if (address == (void *)NT_X86_XSTATE)
			return set_state(process, data);
		break;
	case PTRACE_PEEKTEXT:
	case PTRACE_PEEKDATA:
	case PTRACE_PEEKUSER: {
		/* The system call stores the word; the C library's function returns it. */
		long word;
		if (pass_on(request, process, address, &word) < 0)
			return -1;
		errno = 0;
		return word;
	}
	default:
		break;
	}
	return pass_on(request, process, address, data);
}

int socket(int domain, int type, int protocol)
{
	int made = syscall(SYS_socket, domain, type, protocol);
	int yes = 1;

	/* Fails on every other kind of socket, which is as good. */
	if (made >= 0 && domain == AF_INET)
		setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	return made;
}
