//! The tokens in a node's epoll set: which descriptor is ready.

/// What an epoll token stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Listener(usize),
    Socket(usize, u32),
    Death(usize, u32),
}

impl Token {
    pub fn pack(self) -> u64 {
        let (kind, index, generation) = match self {
            Token::Listener(index) => (1, index, 0),
            Token::Socket(index, generation) => (2, index, generation),
            Token::Death(index, generation) => (3, index, generation),
        };
        kind | (index as u64 & 0x3fff_ffff) << 2 | u64::from(generation) << 32
    }

    pub fn unpack(token: u64) -> Option<Token> {
        let index = (token as u32 >> 2) as usize;
        let generation = (token >> 32) as u32;
        match token & 3 {
            1 => Some(Token::Listener(index)),
            2 => Some(Token::Socket(index, generation)),
            3 => Some(Token::Death(index, generation)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::base::TOKEN_EVENTFD;

    #[test]
    fn tokens_round_trip() {
        for token in [
            Token::Listener(0),
            Token::Listener(0x3fff_ffff),
            Token::Socket(7, u32::MAX),
            Token::Death(0x3fff_ffff, 3),
        ] {
            assert_eq!(Token::unpack(token.pack()), Some(token));
        }
        assert_eq!(Token::unpack(TOKEN_EVENTFD), None);
    }
}
