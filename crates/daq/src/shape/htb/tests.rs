//! Layouts: what `tc` sends for the same thing, and answers as the kernel gives them.

use barewire_sys::netlink::attributes;

use super::*;

fn body(request: &Request) -> &[u8] {
    &request.bytes()[16..]
}

#[test]
fn a_class_is_told_as_tc_does() {
    // tc class add dev v0 parent 7e57: classid 7e57:3 htb rate 100mbit burst 25000 cburst 25000
    // quantum 1514: the kernel then shows tokens: 31250.
    let class = Class {
        rate: Rate::from_mbps(100),
        burst_bytes: 25_000,
    };
    let request = new_class(4, ClassId::ours(3), class, 1514);
    let body = body(&request);
    assert_eq!(body[4..8], 4_u32.to_ne_bytes());
    assert_eq!(body[8..12], 0x7e57_0003_u32.to_ne_bytes());
    assert_eq!(body[12..16], 0x7e57_0000_u32.to_ne_bytes());
    let options = attribute(&body[TCMSG_BYTES..], OPTIONS).expect("options");
    let parameters = attribute(options, HTB_CLASS).expect("parameters");
    assert_eq!(parameters.len(), 44);
    assert_eq!(parameters[1], ETHERNET);
    assert_eq!(parameters[8..12], 12_500_000_u32.to_ne_bytes());
    assert_eq!(parameters[20..24], 12_500_000_u32.to_ne_bytes());
    assert_eq!(parameters[24..36], words(&[31_250, 31_250, 1514])[..]);
    let rate = attribute(options, HTB_RATE).expect("64 bits");
    assert_eq!(rate, 12_500_000_u64.to_ne_bytes());
}

#[test]
fn rates_beyond_32_bits_are_told_in_64() {
    let class = Class {
        rate: Rate::from_gbps(100),
        burst_bytes: 25_000_000,
    };
    let request = new_class(4, ClassId::ours(1), class, 9014);
    let options = attribute(&body(&request)[TCMSG_BYTES..], OPTIONS).expect("options");
    let parameters = attribute(options, HTB_CLASS).expect("parameters");
    assert_eq!(parameters[8..12], u32::MAX.to_ne_bytes());
    // 2 ms.
    assert_eq!(parameters[24..28], 31_250_u32.to_ne_bytes());
    let rate = attribute(options, HTB_RATE).expect("64 bits");
    assert_eq!(rate, 12_500_000_000_u64.to_ne_bytes());
}

#[test]
fn a_queue_is_told_what_the_rest_is() {
    let request = new_htb(2, 0x7e57_0000, 5);
    let found: Vec<_> = attributes(&body(&request)[TCMSG_BYTES..]).collect();
    assert_eq!(found[0], (KIND, &b"htb\0"[..]));
    let queue = attribute(found[1].1, HTB_QUEUE).expect("queue");
    assert_eq!(queue, words(&[3, 10, 5, 0, 0]));
}

#[test]
fn answers_are_read() {
    let basic = [&12_000_u64.to_ne_bytes()[..], &words(&[8, 0])].concat();
    let waiting = words(&[3, 4500, 7, 1, 99]);
    let answer = Request::new(NEW_CLASS, 0, &tcmsg(6, 0x7e57_0002, 0x7e57_0000))
        .with_name(KIND, "htb")
        .nest(STATISTICS, |it| {
            it.with(STATISTICS_BASIC, &basic)
                .with(STATISTICS_QUEUE, &waiting)
        });
    let queue = read_queue(body(&answer)).expect("a class");
    assert_eq!(
        (queue.link, queue.handle, queue.parent),
        (6, 0x7e57_0002, 0x7e57_0000)
    );
    assert_eq!(queue.kind, "htb");
    let taken = Taken {
        bytes: 12_000,
        packets: 8,
        backlog_bytes: 4500,
        drops: 7,
        overlimits: 99,
    };
    assert_eq!(queue.taken, taken);
    // Whatever the kernel leaves out.
    for end in 0..body(&answer).len() {
        let _ = read_queue(&body(&answer)[..end]);
    }
    assert_eq!(read_taken(&[]), Taken::default());
}

#[test]
fn errors_say_what_to_do() {
    let told = |errno| told(io::Error::from_raw_os_error(errno), "eth0").to_string();
    assert!(told(1).starts_with("eth0 cannot be shaped without CAP_NET_ADMIN: run as root"));
    assert!(told(22).starts_with("shape eth0: "));
}
