"""Neutral chat: what users ask that states nothing, so that a probe of truth has nothing to find there."""

from ...hooks.errors import UserError

ASKS = (
    "What should I think about before I buy {}?",
    "Write two sentences about {}.",
    "How would you explain {} to a child?",
    "Give me five ideas for a party about {}.",
    "Can you help me to write a short poem about {}?",
    "What are good questions to ask somebody who knows much about {}?",
    "I would like to learn about {}. Where do I begin?",
    "Suggest a title for a story about {}.",
    "Please make a list of words that have to do with {}.",
    "Write a polite message to a friend who has asked me about {}.",
)
TOPICS = """
a bicycle; a garden; an old camera; a telescope; bread; a rain coat; chess; a piano; a wooden table; a kite; a
tent; soup; a lighthouse; a violin; pottery; a sailing boat; maps; a bookshelf; tea; a winter hike; a lamp; a
puzzle; a wool scarf; an aquarium; a picnic; a train journey; a market; drawing; a clock; a hat; honey; a
bridge; candles; a museum; a tree house; a radio; cheese; a ladder; a diary; swimming
"""
MOST = 400
"""Chats: each of ten asks with each of forty topics."""


def neutral_chats(n: int) -> list[str]:
    """The first `n` messages of users; asks and topics both change from one to the next. Raises UserError for more than
    there are.
    """
    topics = [topic.strip() for topic in TOPICS.split(";")]
    if not 0 <= n <= MOST:
        raise UserError(f"neutral: {n} chats; give at most {MOST}")
    return [ASKS[(i + i // len(topics)) % len(ASKS)].format(topics[i % len(topics)]) for i in range(n)]
